"""Files that people attach to a take of a date, beside those of breaks, in versions of their own; its signature locks
them."""

from alembic import op

revision = "v0021"
down_revision = "v0020"

# Of a break, or of a take: its run in a destination.
TABLE = """
alter table seamline.attachment add column run_id text not null default '';
alter table seamline.attachment add column destination text not null default '';
alter table seamline.attachment add constraint of_a_break_or_of_a_take check ((break_id = '') <> (run_id = ''));
alter table seamline.attachment drop constraint attachment_break_id_name_version_key;
create unique index attachment_by_version on seamline.attachment (break_id, run_id, destination, name, version);
"""
# `hold_signed_takes` refuses the entry of a file of a signed take, and without its entry there is no file.
RULES = """
create or replace function seamline.add_attachment() returns trigger language plpgsql as $$
begin
    if not exists (
        select from seamline.audit_entry made where made.number = new.number and made.kind = 'attached'
            and document::jsonb @> jsonb_build_object('file', new.name, 'version', new.version,
                'sha256', encode(sha256(new.content), 'hex'))
            and case when new.break_id = ''
                then (made.run_id, made.destination, made.scope) = (new.run_id, new.destination, 'cut')
                    and not document::jsonb ? 'break_ids'
                else document::jsonb @> jsonb_build_object('break_ids', jsonb_build_array(new.break_id)) end
    ) then
        raise exception 'entry % is not about version % of this file', new.number, new.version using errcode = 'SLM01';
    end if;
    return new;
end $$;
"""


def upgrade() -> None:
    for statements in (TABLE, RULES):
        op.execute(statements)

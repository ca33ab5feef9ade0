"""Identities of breaks by a secret: what is new has one that nobody can try keys of rows by; what is stored keeps its
own."""

from alembic import op

revision = "v0029"
down_revision = "v0028"


def upgrade() -> None:
    op.execute(
        """
        create table seamline.identity_secret (
            is_one boolean primary key default true check (is_one),
            secret text not null,
            has_older boolean not null
        );
        insert into seamline.identity_secret (secret, has_older)
        select replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
            exists (select from seamline.break_work);
        """
    )

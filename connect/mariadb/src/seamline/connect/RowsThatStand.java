package seamline.connect;

import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventHeaderV4;
import com.github.shyiko.mysql.binlog.event.EventType;
import com.github.shyiko.mysql.binlog.event.MariadbGtidEventData;
import com.github.shyiko.mysql.binlog.event.QueryEventData;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;

/**
 * Holds the events of a transaction until its end, and takes those away that it has undone.
 *
 * What is rolled back is seldom in a binlog. But once a transaction has made or dropped a temporary table, or has written to a
 * table without transactions, the server keeps its rows there and writes ROLLBACK, or ROLLBACK TO a savepoint, behind them
 * (log.cc, trans_cannot_safely_rollback).
 */
final class RowsThatStand {

    /** Of the events as they stand in the binlog; in memory they take several times that. */
    private static final long HELD_BYTES_MAX = 8L << 20;

    private static final String SAVEPOINT = "SAVEPOINT ";
    private static final String ROLLBACK_TO = "ROLLBACK TO ";

    private final Function<Event, ?> dataOf;

    /** From its GTID on; empty where no transaction is open. */
    private final List<Event> held = new ArrayList<>();

    /** How many events were held when each was set. */
    private final Map<String, Integer> savepoints = new HashMap<>();

    private Event begin;
    private long bytes;

    /** @param dataOf what an event holds */
    RowsThatStand(Function<Event, ?> dataOf) {
        this.dataOf = dataOf;
    }

    /**
     * Where a transaction is larger than what is held, its events are handed on as they come. If it is then undone as a whole,
     * it is begun again, as after a restart; a ROLLBACK TO is handed on and cannot be obeyed.
     *
     * @return the events that are to be reported now, in order
     */
    List<Event> next(Event event) {
        EventType kind = event.getHeader().getEventType();
        if (kind == EventType.HEARTBEAT || begin == null && kind != EventType.MARIADB_GTID) {
            return List.of(event);
        }
        return switch (kind) {
            case MARIADB_GTID -> begun(event);
            case QUERY -> afterStatement(event, (QueryEventData) dataOf.apply(event));
            case XID, XA_PREPARE, ROTATE, FORMAT_DESCRIPTION, STOP -> ended(event);
            default -> held.isEmpty() ? List.of(event) : hold(event);
        };
    }

    /** Whether it takes back some of what its transaction has reported before. */
    static boolean isUndoing(QueryEventData statement) {
        return statement.getSql().startsWith(ROLLBACK_TO);
    }

    private List<Event> begun(Event gtid) {
        List<Event> left = close();
        MariadbGtidEventData data = (MariadbGtidEventData) dataOf.apply(gtid);
        if ((data.getFlags() & MariadbGtidEventData.FL_STANDALONE) != 0) {
            left.add(gtid);
            return left;
        }
        begin = gtid;
        held.add(gtid);
        return left;
    }

    private List<Event> afterStatement(Event event, QueryEventData statement) {
        String sql = statement.getSql().trim();
        if (sql.equalsIgnoreCase("COMMIT")) {
            return ended(event);
        }
        if (sql.equalsIgnoreCase("ROLLBACK")) {
            Event first = begin;
            close();
            statement.setSql("COMMIT");
            return List.of(first, event);
        }
        if (sql.startsWith(SAVEPOINT)) {
            set(nameIn(sql, SAVEPOINT));
            return List.of();
        }
        if (isUndoing(statement) && undo(nameIn(sql, ROLLBACK_TO))) {
            return List.of();
        }
        List<Event> all = handOn();
        all.add(event);
        return all;
    }

    /** A name that is set again is only the newer one. Where it cannot be compared it may be any of those before. */
    private void set(String savepoint) {
        if (savepoint == null) {
            savepoints.clear();
        } else if (!held.isEmpty()) {
            savepoints.put(savepoint, held.size());
        }
    }

    private boolean undo(String savepoint) {
        Integer from = savepoint == null ? null : savepoints.get(savepoint);
        if (from == null) {
            return false;
        }
        held.subList(from, held.size()).clear();
        savepoints.values().removeIf(place -> place > from);
        return true;
    }

    private List<Event> hold(Event event) {
        held.add(event);
        bytes += ((EventHeaderV4) event.getHeader()).getEventLength();
        return bytes > HELD_BYTES_MAX ? handOn() : List.of();
    }

    private List<Event> handOn() {
        List<Event> all = new ArrayList<>(held);
        held.clear();
        savepoints.clear();
        return all;
    }

    private List<Event> ended(Event last) {
        List<Event> all = close();
        all.add(last);
        return all;
    }

    private List<Event> close() {
        begin = null;
        bytes = 0;
        return handOn();
    }

    /** As the server compares it; null where that takes more than ASCII. It quotes names by the session's modes. */
    private static String nameIn(String statement, String before) {
        String name = statement.substring(before.length()).trim();
        if (!StandardCharsets.US_ASCII.newEncoder().canEncode(name)) {
            return null;
        }
        for (String quote : new String[] {"`", "\""}) {
            if (name.length() > 1 && name.startsWith(quote) && name.endsWith(quote)) {
                name = name.substring(1, name.length() - 1).replace(quote + quote, quote);
                break;
            }
        }
        return name.toLowerCase(Locale.ROOT);
    }
}

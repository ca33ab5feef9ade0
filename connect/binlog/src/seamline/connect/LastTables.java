package seamline.connect;

import java.util.LinkedHashMap;
import java.util.Map;

/** By the number of a table, which is another each time that the server opens it; it names it before each statement's rows. */
final class LastTables<T> extends LinkedHashMap<Long, T> {

    private static final long serialVersionUID = 1;

    private static final int MOST = 10_000;

    LastTables() {
        super(16, 0.75f, true);
    }

    @Override
    protected boolean removeEldestEntry(Map.Entry<Long, T> eldest) {
        return size() > MOST;
    }
}

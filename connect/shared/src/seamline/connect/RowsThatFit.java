package seamline.connect;

import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Struct;

/**
 * Rows that a record of the log has no room for are reported without their images: their table's streams stop at them by name, and
 * what is reported of other tables goes on. The producer would end the task.
 */
final class RowsThatFit {

    /** `max.request.size` of a capture's producer, less names, key and place. */
    private static final long BYTES_MAX = (32L << 20) - (256L << 10);

    /** A control character is six letters of JSON (`\u0001`), and no letter is more. */
    private static final int WORST = 6;

    private static final int PER_VALUE = 40;
    private static final String BEFORE = "before";
    private static final String AFTER = "after";

    private RowsThatFit() {}

    /** @param isKeyed whether the row is known by its key, so that an update needs no image of what was before */
    static Struct of(Struct row, boolean isKeyed) {
        Struct before = row.getStruct(BEFORE);
        Struct after = row.getStruct(AFTER);
        if (fits(before, after)) {
            return row;
        }
        boolean isEnough = isKeyed && after != null && fits(null, after);
        return row.put(BEFORE, null).put(AFTER, isEnough ? after : null);
    }

    private static boolean fits(Struct before, Struct after) {
        return most(before) + most(after) <= BYTES_MAX || exact(before) + exact(after) <= BYTES_MAX;
    }

    private static long most(Struct image) {
        long bytes = 0;
        if (image != null) {
            for (Field field : image.schema().fields()) {
                bytes += image.get(field) instanceof String text ? (long) WORST * text.length() : PER_VALUE;
            }
        }
        return bytes;
    }

    private static long exact(Struct image) {
        long bytes = 0;
        if (image != null) {
            for (Field field : image.schema().fields()) {
                bytes += image.get(field) instanceof String text ? json(text) : PER_VALUE;
            }
        }
        return bytes;
    }

    private static long json(String text) {
        long bytes = 2;
        for (int at = 0; at < text.length(); at++) {
            char letter = text.charAt(at);
            if (letter < ' ') {
                bytes += WORST;
            } else if (letter < 0x80) {
                bytes += letter == '"' || letter == '\\' ? 2 : 1;
            } else {
                bytes += letter < 0x800 || Character.isSurrogate(letter) ? 2 : 3;
            }
        }
        return bytes;
    }
}

package seamline.connect;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * Reads topics that others write, and puts their records into one log topic in the order in which they are read: BEGIN,
 * the records of one read, END (ADR 90). What is in a record is left alone.
 */
public class TopicsConnector extends SourceConnector {

    static final String OWN = "seamline-2";

    private Map<String, String> settings;

    @Override
    public String version() {
        return OWN;
    }

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return TopicsTask.class;
    }

    /** One: the log has one order. */
    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return List.of(settings);
    }

    @Override
    public void stop() {
        // A task holds all that is open.
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    /** The place lies in Connect's own transaction, with the records that were read up to it. */
    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> given) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public boolean alterOffsets(Map<String, String> given, Map<Map<String, ?>, Map<String, ?>> offsets) {
        return true;
    }
}

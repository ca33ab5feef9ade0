package seamline.connect;

import io.debezium.config.Configuration;
import io.debezium.connector.mariadb.MariaDbConnectorConfig;
import io.debezium.connector.mariadb.MariaDbOffsetContext;
import io.debezium.connector.mariadb.MariaDbPartition;
import io.debezium.connector.mariadb.jdbc.MariaDbConnection;
import io.debezium.connector.mariadb.jdbc.MariaDbConnectionConfiguration;
import io.debezium.pipeline.ChangeEventSourceCoordinator;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;

/** Where a transaction is open at a stop, it is told again from its BEGIN. */
public class MariaDbConnectorTask extends io.debezium.connector.mariadb.MariaDbConnectorTask {

    private final Places places = new MariaDbPlaces();
    private PlacesBetweenTransactions between;
    private ToldWhole told;

    @Override
    public String version() {
        return ToldWhole.versionOver(super.version());
    }

    @Override
    public void initialize(SourceTaskContext given) {
        between = new PlacesBetweenTransactions(given, places);
        super.initialize(between);
    }

    @Override
    public ChangeEventSourceCoordinator<MariaDbPartition, MariaDbOffsetContext> start(Configuration settings) {
        String name = new MariaDbConnectorConfig(settings).getLogicalName();
        Map<String, Object> stored = between.stored(Map.of("server", name));
        Markers markers = new Markers(settings, stored);
        refuseAnotherHistory(settings, markers);
        told = new ToldWhole(places, stored, markers);
        return super.start(settings);
    }

    @Override
    public List<SourceRecord> doPoll() throws InterruptedException {
        return told.next(super.doPoll());
    }

    /** A server that was restored gives the same GTIDs once more, so Debezium's own check of them passes. */
    private static void refuseAnotherHistory(Configuration settings, Markers markers) {
        MariaDbConnectionConfiguration access = new MariaDbConnectionConfiguration(settings);
        try (MariaDbConnection connection = new MariaDbConnection(access, null)) {
            markers.requireNewestIn(connection);
        } catch (SQLException failure) {
            throw Unanswered.because(failure);
        }
    }
}

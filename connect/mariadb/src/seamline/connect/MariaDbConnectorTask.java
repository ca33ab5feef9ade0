package seamline.connect;

import io.debezium.config.Configuration;
import io.debezium.connector.mariadb.MariaDbConnectorConfig;
import io.debezium.connector.mariadb.MariaDbOffsetContext;
import io.debezium.connector.mariadb.MariaDbPartition;
import io.debezium.pipeline.ChangeEventSourceCoordinator;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTaskContext;

/** Where a transaction is open at a stop, it is told again from its BEGIN. */
public class MariaDbConnectorTask extends io.debezium.connector.mariadb.MariaDbConnectorTask {

    private final Places places = new MariaDbPlaces();
    private ToldWhole told;

    @Override
    public String version() {
        return ToldWhole.versionOver(super.version());
    }

    @Override
    public void initialize(SourceTaskContext given) {
        super.initialize(new PlacesBetweenTransactions(given, places));
    }

    @Override
    public ChangeEventSourceCoordinator<MariaDbPartition, MariaDbOffsetContext> start(Configuration settings) {
        String name = new MariaDbConnectorConfig(settings).getLogicalName();
        told = new ToldWhole(places, context.offsetStorageReader().offset(Map.of("server", name)));
        return super.start(settings);
    }

    @Override
    public List<SourceRecord> doPoll() throws InterruptedException {
        return told.next(super.doPoll());
    }
}

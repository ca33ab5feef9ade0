"""In which MySQL's canonical texts differ from MariaDB's. Measured on 9.7.4."""

from seamline.databases.mysql.canonical import Dialect

# TIME_TO_SEC drops the fraction, and with it the sign of a TIME within a second of zero.
MYSQL = Dialect(
    collation="utf8mb4_0900_bin",
    micros="(TIME_TO_SEC({name})*1000000+IF({name}<TIME'00:00:00',-1,1)*MICROSECOND({name}))",
    # A client may print a document that it is given as one: connectorx leaves the spaces out.
    document="CAST({name} AS CHAR)",
)

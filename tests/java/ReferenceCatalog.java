package org.apache.iceberg.rest;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.Files;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.util.Pair;

/**
 * Iceberg's own adapter of the REST calls, over its JDBC catalogue in PostgreSQL, behind a port. Each first part of a
 * path is a catalogue of its own. The warehouse is folders of this machine.
 */
public final class ReferenceCatalog {
  private final Map<String, RESTCatalogAdapter> adapters = new ConcurrentHashMap<>();
  private final Map<String, String> properties;

  private ReferenceCatalog(Map<String, String> properties) {
    this.properties = properties;
  }

  /** Arguments: URL and login of the database. Its password is in the environment. Prints the port. */
  public static void main(String[] args) throws IOException {
    ReferenceCatalog catalog =
        new ReferenceCatalog(
            Map.of(
                CatalogProperties.URI, args[0],
                "jdbc.user", args[1],
                "jdbc.password", System.getenv("PGPASSWORD"),
                "jdbc.schema-version", "V1",
                // Every table says where it lies.
                CatalogProperties.WAREHOUSE_LOCATION, "/nowhere",
                CatalogProperties.FILE_IO_IMPL, LocalIO.class.getName()));
    HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setExecutor(Executors.newCachedThreadPool());
    server.createContext("/", catalog::answer);
    server.start();
    System.out.println(server.getAddress().getPort());
  }

  private void answer(HttpExchange exchange) throws IOException {
    int code = 200;
    Object found;
    try (exchange) {
      byte[] body = exchange.getRequestBody().readAllBytes();
      try {
        found = found(exchange, body);
      } catch (Exception e) {
        ErrorResponse.Builder error = ErrorResponse.builder();
        RESTCatalogAdapter.configureResponseFromException(e, error);
        ErrorResponse built = error.build();
        code = built.code();
        found = built;
      }
      byte[] text = found == null ? new byte[0] : RESTObjectMapper.mapper().writeValueAsBytes(found);
      boolean hasBody = text.length > 0 && !exchange.getRequestMethod().equals("HEAD");
      exchange.getResponseHeaders().set("Content-Type", "application/json");
      exchange.sendResponseHeaders(code == 200 && !hasBody ? 204 : code, hasBody ? text.length : -1);
      if (hasBody) {
        exchange.getResponseBody().write(text);
      }
    }
  }

  private Object found(HttpExchange exchange, byte[] body) throws IOException {
    String[] parts = exchange.getRequestURI().getRawPath().substring(1).split("/", 2);
    HTTPRequest.HTTPMethod method = HTTPRequest.HTTPMethod.valueOf(exchange.getRequestMethod());
    Pair<Route, Map<String, String>> route = Route.from(method, parts[1]);
    if (route == null) {
      throw new IllegalArgumentException("no call of the specification: " + method + " " + parts[1]);
    }
    Class<? extends RESTRequest> asked = route.first().requestClass();
    Object request = asked == null ? null : RESTObjectMapper.mapper().readValue(body, asked);
    RESTCatalogAdapter adapter = adapters.computeIfAbsent(parts[0], this::opened);
    HTTPRequest call = adapter.buildRequest(method, parts[1], query(exchange.getRequestURI()), Map.of(), request);
    return adapter.handleRequest(route.first(), route.second(), call, route.first().responseClass(), headers -> {});
  }

  private RESTCatalogAdapter opened(String name) {
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize(name, properties);
    return new RESTCatalogAdapter(catalog);
  }

  private static Map<String, String> query(URI uri) {
    Map<String, String> found = new HashMap<>();
    for (String one : uri.getRawQuery() == null ? new String[0] : uri.getRawQuery().split("&")) {
      String[] pair = one.split("=", 2);
      found.put(pair[0], URLDecoder.decode(pair[1], StandardCharsets.UTF_8));
    }
    return found;
  }

  /** Files of folders. */
  public static final class LocalIO implements FileIO {
    @Override
    public InputFile newInputFile(String path) {
      return Files.localInput(path);
    }

    @Override
    public OutputFile newOutputFile(String path) {
      return Files.localOutput(path.startsWith("file:") ? URI.create(path).getPath() : path);
    }

    @Override
    public void deleteFile(String path) {
      new File(path.startsWith("file:") ? URI.create(path).getPath() : path).delete();
    }
  }
}

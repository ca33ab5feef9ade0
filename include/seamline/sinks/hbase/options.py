"""Keys of a destination's options. The declaration, which DAGs are made of, imports nothing of rows."""

NAMESPACE = "namespace"

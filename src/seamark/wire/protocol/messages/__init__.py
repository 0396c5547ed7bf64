"""One file per Kafka API, each holding its request and response for all versions."""

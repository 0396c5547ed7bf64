"""The configuration: Kafka's keys, their defaults and checks, and the spellings of other clients."""

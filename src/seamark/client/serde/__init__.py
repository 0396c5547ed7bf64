"""Serializers and deserializers of keys and values, Avro and the schema registry."""

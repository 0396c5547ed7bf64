"""The lake's tables: files, manifest, schemas."""

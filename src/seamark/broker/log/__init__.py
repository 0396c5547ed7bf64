"""The logs of partitions: append, high watermark, leader epochs, producers, maintenance."""

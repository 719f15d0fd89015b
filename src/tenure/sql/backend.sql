-- backend: the server process that answers; behind a pooler it is not the one that the handshake named
SELECT pg_backend_pid();

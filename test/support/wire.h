/* wire: a proxy that knows the messages of PostgreSQL, to make network and server fail at a chosen
 * point.
 *
 * It listens on 127.0.0.1 and forwards to the server of pgtemp_dsn(). It can act as a pooler. At
 * the n-th message of a type from the server it can insert messages, go silent or close the
 * connection; at one from a client, too, but insert nothing. */
#ifndef WIRE_H
#define WIRE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct wire wire;

wire *wire_open(void);
void wire_close(wire *w);

/* Connection string through the wire; borrowed. */
const char *wire_dsn(const wire *w);
int wire_port(const wire *w);

/* From the next connection on: changes process numbers, and may refuse start-up options (08P01). */
void wire_act_as_pooler(wire *w, bool refuse_options);

/* true: forwards nothing, in either direction. false: forwards again. */
void wire_freeze(wire *w, bool frozen);

/* The next n cancel requests are answered and not forwarded. */
void wire_lose_cancels(wire *w, int n);

/* The next n requests for TLS are granted, and then the connection is cut. */
void wire_break_tls(wire *w, int n);

typedef enum wire_deed {
    WIRE_PASS,     /* insert, then continue */
    WIRE_DELAY,    /* insert, then continue after 20 ms */
    WIRE_SILENT,   /* insert, then forward nothing more from this side of this connection */
    WIRE_HALF,     /* the same, and close this half of the connection */
    WIRE_CUT,      /* insert, then close both sides */
    WIRE_CUT_AFTER /* insert, forward this message, then close both sides */
} wire_deed;

#define WIRE_ANY '*'

/* At the n-th message of this type from a server (1: the next): inserts `messages` (copied) before
 * it, and does the deed. A new order replaces the old one. Type 0: no order. */
void wire_at(wire *w, char type, int n, const char *messages, size_t size, wire_deed deed);

/* The same at the n-th message of a client, after the start-up; nothing is inserted. */
void wire_at_client(wire *w, char type, int n, wire_deed deed);

/* A message to insert, in a static buffer: 'E' error or 'N' notice. */
const char *wire_message(char type, const char *severity, const char *sqlstate, const char *text,
                         size_t *size);
/* The same, as raised by this function of the server. */
const char *wire_message_of(const char *function, char type, const char *severity,
                            const char *sqlstate, const char *text, size_t *size);

int wire_connections(wire *w);          /* start-up packets seen */
int wire_cancels(wire *w);              /* cancel requests seen */
int wire_orders(wire *w);               /* orders of wire_at() carried out */
int wire_seen(wire *w, bool of_client); /* messages, after start-up packets */

/* "key=value\n..." of the last start-up packet; borrowed until the next one. */
const char *wire_startup(wire *w);

#endif

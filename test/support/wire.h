/* wire: a man in the middle that knows PostgreSQL's messages, to make the network and the server
 * fail at a chosen point.
 *
 * It listens on 127.0.0.1 and passes everything on to the server of pgtemp_dsn(). It may act a
 * pooler, and at the n-th message of some type from the server it can insert messages, go silent or
 * hang up. */
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

/* From the next connection on: refuse start-up options with 08P01, and make up process numbers. */
void wire_act_as_pooler(wire *w, bool refuse_options);

/* Nothing passes any more, in neither direction, and nobody is answered; or all passes again. */
void wire_freeze(wire *w, bool frozen);

/* The next n cancel requests are answered, and come to nothing. */
void wire_lose_cancels(wire *w, int n);

/* The next n requests for TLS are granted, and the line is cut. */
void wire_break_tls(wire *w, int n);

typedef enum wire_deed {
    WIRE_PASS,   /* insert, then go on */
    WIRE_DELAY,  /* insert, and go on after 20 ms */
    WIRE_SILENT, /* insert, then pass nothing from the server any more on this connection */
    WIRE_CUT     /* insert, then hang up on both sides */
} wire_deed;

#define WIRE_ANY '*'

/* At the n-th message of this type (1: the next) that a server sends: insert `messages` (copied)
 * before it and do the deed. One order at a time; a new one replaces it; of type 0: none. */
void wire_at(wire *w, char type, int n, const char *messages, size_t size, wire_deed deed);

/* A message to insert, in a static buffer: 'E' error or 'N' notice. */
const char *wire_message(char type, const char *severity, const char *sqlstate, const char *text,
                         size_t *size);
/* The same, raised by a function of the server's. */
const char *wire_message_of(const char *function, char type, const char *severity,
                            const char *sqlstate, const char *text, size_t *size);

int wire_connections(wire *w); /* start-up packets seen */
int wire_cancels(wire *w);     /* cancel requests seen */
int wire_orders(wire *w);      /* orders of wire_at() carried out */

/* "key=value\n..." of the last start-up packet; borrowed until the next one. */
const char *wire_startup(wire *w);

#endif

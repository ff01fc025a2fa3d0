/*
 * JSON by RFC 8259, strictly: no comments, no trailing commas, valid UTF-8, no lone surrogates, nested 128 deep at most.
 *
 * A value is a place in the document, which must stay there; nothing is copied until a string is asked for.
 */
#ifndef JSON_H
#define JSON_H

#include "gristmill.h"

typedef enum {
  JSON_MISSING, /* also of a document that is no JSON */
  JSON_NULL,
  JSON_FALSE,
  JSON_TRUE,
  JSON_NUMBER,
  JSON_STRING,
  JSON_ARRAY,
  JSON_OBJECT
} json_type;

typedef struct {
  json_type type;
  gm_text raw; /* as it stands in the document */
} json_value;

/* The document's only value. JSON_MISSING if it is no JSON; then `*wrong_at` is the offset of the first wrong byte. */
json_value json_parse(gm_text document, size_t *wrong_at);

/* The field of this name, the last one if there are more. JSON_MISSING if there is none, or `object` is none. */
json_value json_field(json_value object, gm_text name);

/* What a string says; none if the value is no string. */
gm_optional_text json_text(json_value string);

/* A text as a JSON string, in quotes. What is not ASCII stays as it is. The text must be UTF-8. */
gm_text json_string(gm_text text);

/* json_object({GM("name"), json_string(name)}, {GM("paid"), GM("true")}), compact and in this order. */
#define json_object(...) json_object_of(GM_PAIRS(__VA_ARGS__))
gm_text json_object_of(gm_pairs names_and_values);

#endif

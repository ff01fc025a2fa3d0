// JSON by RFC 8259, strictly: no comments, no trailing commas, valid UTF-8, no lone surrogates, nested 128 deep at most.

const DEEPEST = 128;

export enum Type {
  Null,
  Bool,
  Number,
  String,
  Array,
  Object,
}

/** A value, as a place in its document: nothing is copied until it is asked for. */
export class Json {
  constructor(
    private document: Uint8Array,
    private begin: i32,
    private end: i32,
  ) {}

  /** The document's only value; null if it is no JSON. */
  static parse(document: Uint8Array): Json | null {
    const reader = new Reader(document);
    reader.space();
    const begin = reader.at;
    if (!reader.value(0)) return null;
    const end = reader.at;
    reader.space();
    return reader.at == document.length ? new Json(document, begin, end) : null;
  }

  get type(): Type {
    switch (this.document[this.begin]) {
      case 0x7b: return Type.Object;
      case 0x5b: return Type.Array;
      case 0x22: return Type.String;
      case 0x6e: return Type.Null;
      case 0x74: case 0x66: return Type.Bool;
      default: return Type.Number;
    }
  }

  /** The fields of an object; of equal names the last one. Of another value none. */
  fields(): Map<string, Json> {
    const fields = new Map<string, Json>();
    if (this.type != Type.Object) return fields;
    const reader = new Reader(this.document);
    reader.at = this.begin + 1;
    do {
      reader.space();
      let begin = reader.at;
      if (!reader.string()) break; // `parse` has seen all of it: this is an empty object
      const name = unquote(this.document, begin + 1, reader.at - 1);
      reader.space();
      reader.take(0x3a);
      reader.space();
      begin = reader.at;
      reader.value(0);
      fields.set(name, new Json(this.document, begin, reader.at));
      reader.space();
    } while (reader.take(0x2c));
    return fields;
  }

  /** What a string says; null of another value. */
  text(): string | null {
    return this.type == Type.String ? unquote(this.document, this.begin + 1, this.end - 1) : null;
  }

  isTrue(): bool {
    return this.document[this.begin] == 0x74;
  }
}

/** Each method moves `at` behind what it has read, or returns false at the first wrong byte. */
class Reader {
  at: i32 = 0;
  private end: i32;

  constructor(private data: Uint8Array) {
    this.end = data.length;
  }

  /** The byte at `at`, or -1. */
  @inline private peek(): i32 {
    return this.at < this.end ? <i32>unchecked(this.data[this.at]) : -1;
  }

  take(byte: i32): bool {
    if (this.peek() != byte) return false;
    this.at++;
    return true;
  }

  space(): void {
    for (let c = this.peek(); c == 0x20 || c == 0x09 || c == 0x0a || c == 0x0d; c = this.peek()) this.at++;
  }

  value(depth: i32): bool {
    this.space();
    if (depth > DEEPEST) return false;
    switch (this.peek()) {
      case 0x7b: return this.object(depth);
      case 0x5b: return this.array(depth);
      case 0x22: return this.string();
      case 0x6e: return this.word("null");
      case 0x74: return this.word("true");
      case 0x66: return this.word("false");
      default: return this.number();
    }
  }

  private object(depth: i32): bool {
    this.at++;
    this.space();
    if (this.take(0x7d)) return true;
    do {
      this.space();
      if (!this.string()) return false;
      this.space();
      if (!this.take(0x3a) || !this.value(depth + 1)) return false;
      this.space();
    } while (this.take(0x2c));
    return this.take(0x7d);
  }

  private array(depth: i32): bool {
    this.at++;
    this.space();
    if (this.take(0x5d)) return true;
    do {
      if (!this.value(depth + 1)) return false;
      this.space();
    } while (this.take(0x2c));
    return this.take(0x5d);
  }

  private word(text: string): bool {
    for (let i = 0; i < text.length; i++) {
      if (!this.take(text.charCodeAt(i))) return false;
    }
    return true;
  }

  private number(): bool {
    this.take(0x2d);
    if (!this.take(0x30) && !this.digits()) return false;
    if (this.take(0x2e) && !this.digits()) return false;
    if (this.take(0x65) || this.take(0x45)) {
      if (!this.take(0x2b)) this.take(0x2d);
      return this.digits();
    }
    return true;
  }

  private digits(): bool {
    const begin = this.at;
    for (let c = this.peek(); c >= 0x30 && c <= 0x39; c = this.peek()) this.at++;
    return this.at > begin;
  }

  string(): bool {
    if (!this.take(0x22)) return false;
    while (true) {
      const c = this.peek();
      if (c >= 0x80) {
        if (!this.utf8(c)) return false;
      } else if (c == 0x5c) {
        this.at++;
        if (this.escape() < 0) return false;
      } else if (c < 0x20) {
        return false; // a control character, or the end
      } else {
        this.at++;
        if (c == 0x22) return true;
      }
    }
  }

  /** What follows a backslash, as a code point, or -1. */
  escape(): i32 {
    const c = this.peek();
    this.at++;
    switch (c) {
      case 0x22: case 0x5c: case 0x2f: return c;
      case 0x62: return 0x08;
      case 0x66: return 0x0c;
      case 0x6e: return 0x0a;
      case 0x72: return 0x0d;
      case 0x74: return 0x09;
      case 0x75: break;
      default: return -1;
    }
    const code = this.hex4();
    if (code < 0xd800 || code > 0xdfff) return code;
    if (code > 0xdbff || !this.take(0x5c) || !this.take(0x75)) return -1; // half a pair
    const low = this.hex4();
    return low < 0xdc00 || low > 0xdfff ? -1 : 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }

  /** Four hexadecimal digits, or -1. */
  private hex4(): i32 {
    let code = 0;
    for (let i = 0; i < 4; i++) {
      const c = this.peek();
      const letter = c | 0x20;
      if (c >= 0x30 && c <= 0x39) code = (code << 4) | (c - 0x30);
      else if (letter >= 0x61 && letter <= 0x66) code = (code << 4) | (letter - 0x61 + 10);
      else return -1;
      this.at++;
    }
    return code;
  }

  /** One character of more than one byte, by table 3-7 of the Unicode standard: no overlong forms, no surrogates. */
  private utf8(first: i32): bool {
    const more = first >= 0xf5 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
    if (more == 0) return false;
    this.at++;
    const second = this.peek();
    const low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (second < low || second > high) return false;
    for (let i = 1; i < more; i++) {
      this.at++;
      const next = this.peek();
      if (next < 0x80 || next > 0xbf) return false;
    }
    this.at++;
    return true;
  }
}

/** The text between the quotes of a string that `Reader` has read. */
function unquote(document: Uint8Array, begin: i32, end: i32): string {
  const inside = document.subarray(begin, end);
  if (inside.indexOf(0x5c) < 0) return String.UTF8.decodeUnsafe(inside.dataStart, inside.length);
  const out = new Uint8Array(inside.length); // an escape is never shorter than what it stands for
  const reader = new Reader(inside);
  let size = 0;
  while (reader.at < inside.length) {
    if (reader.take(0x5c)) {
      const text = String.fromCodePoint(reader.escape());
      size += <i32>String.UTF8.encodeUnsafe(changetype<usize>(text), text.length, out.dataStart + size);
    } else {
      out[size++] = inside[reader.at++];
    }
  }
  return String.UTF8.decodeUnsafe(out.dataStart, size);
}

/** A text as a JSON string, in quotes. What is not ASCII stays as it is. */
export function quote(text: string): string {
  const parts: string[] = [];
  let begin = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c >= 0x20 && c != 0x22 && c != 0x5c) continue;
    parts.push(text.substring(begin, i));
    parts.push(escaped(c));
    begin = i + 1;
  }
  parts.push(text.substring(begin));
  return '"' + parts.join("") + '"';
}

function escaped(c: i32): string {
  switch (c) {
    case 0x22: return '\\"';
    case 0x5c: return "\\\\";
    case 0x08: return "\\b";
    case 0x09: return "\\t";
    case 0x0a: return "\\n";
    case 0x0c: return "\\f";
    case 0x0d: return "\\r";
    default: return "\\u" + c.toString(16).padStart(4, "0");
  }
}

/** `object([["name", quote(name)], ["paid", "true"]])`: compact, in this order. */
export function object(fields: string[][]): string {
  const parts: string[] = [];
  for (let i = 0; i < fields.length; i++) parts.push(quote(fields[i][0]) + ":" + fields[i][1]);
  return "{" + parts.join(",") + "}";
}

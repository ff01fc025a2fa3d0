/**
 * `URL` and `URLSearchParams`, as the URL Standard has them, without the drive letters of Windows. Names in other scripts than Latin
 * become `xn--…` after `NFKC` and lower case, which is what the standard's tables come to for most of them.
 */

/** Special schemes and their ports. */
const SPECIAL = { 'http:': '80', 'https:': '443', 'ws:': '80', 'wss:': '443', 'ftp:': '21', 'file:': '' };
const isSpecial = (protocol) => Object.hasOwn(SPECIAL, protocol);

// What is percent-encoded, by the part of the URL.
const CONTROL = '\\x00-\\x1f\\x7f-\\u{10ffff}';
const set = (more) => new RegExp(`[${CONTROL}${more}]`, 'gu');
const IN_OPAQUE = set('');
const IN_FRAGMENT = set(' "<>`');
const IN_QUERY = set(' "#<>');
const IN_SPECIAL_QUERY = set(' "#<>\'');
const IN_PATH = set(' "#<>?^`{}');
const IN_USER = set(' "#<>?^`{}/:;=@\\[\\\\\\]|');

const encode = (text, unsafe) => text.toWellFormed().replace(unsafe, (char) => {
  return char > '\x7f' ? encodeURIComponent(char) : `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
});

/** @param {string} text */
function decode(text) {
  if (!text.includes('%')) return text;
  const bytes = new TextEncoder().encode(text);
  const found = [];
  for (let at = 0; at < bytes.length; at++) {
    const digits = bytes[at] === 0x25 ? String.fromCharCode(...bytes.slice(at + 1, at + 3)) : '';
    const isEncoded = /^[0-9a-f]{2}$/i.test(digits);
    found.push(isEncoded ? parseInt(digits, 16) : bytes[at]);
    if (isEncoded) at += 2;
  }
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(found));
}

const invalid = (input) => Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input });

/** The parts of a URL; its `path` is an array of segments, or text if it has no hierarchy. @param {any} [base] parts */
function parse(input, base) {
  const text = input.replace(/^[\x00-\x20]+|[\x00-\x20]+$/g, '').replace(/[\t\n\r]/g, '');
  const [, before, query, fragment] = /^([^?#]*)(\?[^#]*)?(#.*)?$/su.exec(text.toWellFormed());
  const scheme = /^[a-z][a-z0-9+.-]*:/i.exec(before)?.[0];
  const protocol = scheme ? scheme.toLowerCase() : base?.protocol;
  if (!protocol) throw invalid(input);
  const parts = { protocol, user: '', password: '', host: null, port: '', path: [], query: null, fragment: null };
  let rest = scheme ? before.slice(scheme.length) : before;
  if (isSpecial(protocol)) rest = rest.replace(/\\/g, '/');
  const isRelative = !scheme || (isSpecial(protocol) && base?.protocol === protocol && !rest.startsWith('//'));

  if (isRelative && base && typeof base.path === 'string') {
    if (before || query !== undefined || fragment === undefined) throw invalid(input);
    Object.assign(parts, base);
  } else if (isRelative && base && !rest.startsWith('//')) {
    const { user, password, host, port } = base;
    Object.assign(parts, { user, password, host, port });
    if (rest === '') Object.assign(parts, { path: base.path, query: query === undefined ? base.query : null });
    else parts.path = segments(rest, protocol, rest.startsWith('/') ? [] : base.path.slice(0, -1));
  } else if (rest.startsWith('//') || (isSpecial(protocol) && protocol !== 'file:')) {
    const [, authority, path] = (protocol === 'file:' || !isSpecial(protocol) ? /^\/\/([^/]*)(.*)$/su : /^\/*([^/]*)(.*)$/su).exec(rest);
    setAuthority(parts, authority, input);
    parts.path = path === '' && !isSpecial(protocol) ? [] : segments(path, protocol, []);
  } else if (rest.startsWith('/') || protocol === 'file:') {
    if (protocol === 'file:') parts.host = '';
    parts.path = segments(rest, protocol, []);
  } else {
    parts.path = encode(rest, IN_OPAQUE);
  }
  if (query !== undefined) parts.query = encodeQuery(query.slice(1), protocol);
  if (fragment !== undefined) parts.fragment = encode(fragment.slice(1), IN_FRAGMENT);
  return parts;
}

const encodeQuery = (query, protocol) => encode(query, isSpecial(protocol) ? IN_SPECIAL_QUERY : IN_QUERY);

/** Appends the segments of a path to `path`. */
function segments(text, protocol, path) {
  const given = text.replace(/^\//, '').split('/');
  given.forEach((segment, at) => {
    const plain = segment.replace(/%2e/gi, '.');
    const isLast = at === given.length - 1;
    if (plain === '..') path.pop();
    if (plain !== '.' && plain !== '..') path.push(encode(segment, IN_PATH));
    else if (isLast) path.push('');
  });
  return path;
}

function setAuthority(parts, authority, input) {
  const at = authority.lastIndexOf('@');
  if (at >= 0) {
    const [, user, password = ''] = /^([^:]*)(?::(.*))?$/su.exec(authority.slice(0, at));
    parts.user = encode(user, IN_USER);
    parts.password = encode(password, IN_USER);
  }
  const [, host, port] = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/su.exec(authority.slice(at + 1)) ?? [];
  const isFile = parts.protocol === 'file:';
  if (host === undefined || (!host && (at >= 0 || port !== undefined || (isSpecial(parts.protocol) && !isFile)))) throw invalid(input);
  if (isFile && (at >= 0 || port !== undefined)) throw invalid(input);
  parts.host = parsedHost(host, isSpecial(parts.protocol), input);
  if (isFile && parts.host === 'localhost') parts.host = '';
  parts.port = parsedPort(port ?? '', parts.protocol, input);
}

function parsedPort(port, protocol, input) {
  if (!/^[0-9]*$/.test(port) || Number(port) > 65535) throw invalid(input);
  return port === '' || String(Number(port)) === SPECIAL[protocol] ? '' : String(Number(port));
}

function parsedHost(host, special, input) {
  if (host.startsWith('[')) return `[${ipv6(host.slice(1, -1), input)}]`;
  if (!special) {
    if (/[\x00\t\n\r #/:<>?@[\\\]^|]/.test(host)) throw invalid(input);
    return encode(host, IN_OPAQUE);
  }
  const name = decode(host).normalize('NFKC').toLowerCase().replace(/[\u00ad\u200b\u2060\ufeff]/g, '').replace(/\u3002/g, '.');
  const ascii = name.split('.').map((label) => (/[^\x00-\x7f]/.test(label) ? `xn--${punycode(label, input)}` : label)).join('.');
  if ((host && !ascii) || /[\x00-\x20"#%/:<>?@[\\\]^`{|}\x7f]/.test(ascii.replace(/["`{}]/g, ''))) throw invalid(input);
  return /(^|\.)(\d+|0x[0-9a-f]*)\.?$/i.test(ascii) ? ipv4(ascii, input) : ascii;
}

function ipv4(text, input) {
  const numbers = text.replace(/\.$/, '').split('.').map((part) => {
    if (!/^(0x[0-9a-f]*|0[0-7]*|[1-9]\d*)$/i.test(part)) throw invalid(input);
    if (/^0x/i.test(part)) return parseInt(part.slice(2) || '0', 16);
    return parseInt(part, part.length > 1 && part.startsWith('0') ? 8 : 10);
  });
  const last = numbers.pop();
  if (numbers.length > 3 || numbers.some((number) => number > 255) || last >= 256 ** (4 - numbers.length)) throw invalid(input);
  const value = numbers.reduce((sum, number, at) => sum + number * 256 ** (3 - at), last);
  return [24, 16, 8, 0].map((shift) => (value / 2 ** shift) & 255).join('.');
}

function ipv6(text, input) {
  const dotted = /^(.*:)(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  if (dotted) {
    const [a, b, c, d] = dotted.slice(2).map(Number);
    if (dotted.slice(2).some((part) => Number(part) > 255 || /^0\d/.test(part))) throw invalid(input);
    text = `${dotted[1]}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
  }
  const sides = text.split('::').map((side) => (side === '' ? [] : side.split(':')));
  const count = sides.flat().length;
  if (sides.length > 2 || sides.flat().some((piece) => !/^[0-9a-f]{1,4}$/i.test(piece))) throw invalid(input);
  if (sides.length === 1 ? count !== 8 : count > 7) throw invalid(input);
  const pieces = sides.length === 1 ? sides[0] : [...sides[0], ...Array(8 - count).fill('0'), ...sides[1]];
  const short = pieces.map((piece) => parseInt(piece, 16).toString(16)).join(':');
  const [longest] = (short.match(/\b0(:0)+\b/g) ?? []).sort((one, other) => other.length - one.length);
  if (!longest) return short;
  const at = short.search(new RegExp(`\\b${longest}\\b`));
  return `${short.slice(0, at).replace(/:$/, '')}::${short.slice(at + longest.length).replace(/^:/, '')}`;
}

/** RFC 3492. */
function punycode(label, input) {
  const points = Array.from(label, (char) => char.codePointAt(0));
  const basic = points.filter((point) => point < 0x80);
  let output = String.fromCharCode(...basic) + (basic.length > 0 ? '-' : '');
  let [n, delta, bias, handled] = [128, 0, 72, basic.length];
  const digit = (value) => String.fromCharCode(value < 26 ? value + 97 : value + 22);
  while (handled < points.length) {
    const m = Math.min(...points.filter((point) => point >= n));
    delta += (m - n) * (handled + 1);
    n = m;
    for (const point of points) {
      if (point < n) delta++;
      if (point !== n) continue;
      let q = delta;
      for (let k = 36; ; k += 36) {
        const t = Math.min(Math.max(k - bias, 1), 26);
        if (q < t) break;
        output += digit(t + ((q - t) % (36 - t)));
        q = Math.floor((q - t) / (36 - t));
      }
      output += digit(q);
      delta = Math.floor(delta / (handled === basic.length ? 700 : 2));
      delta += Math.floor(delta / ++handled);
      let k = 0;
      for (; delta > 455; k += 36) delta = Math.floor(delta / 35);
      bias = k + Math.floor((36 * delta) / (delta + 38));
      delta = 0;
    }
    delta++;
    n++;
  }
  if (output.length > 59) throw invalid(input);
  return output;
}

export class URLSearchParams {
  #pairs = [];
  #changed = () => {};

  /** @param {string | Iterable<[string, string]> | Record<string, string>} [given] */
  constructor(given = '', changed) {
    if (typeof given === 'object' && given !== null) {
      const pairs = typeof given[Symbol.iterator] === 'function' ? given : Object.entries(given);
      for (const pair of pairs) {
        const [name, value, ...more] = pair;
        if (value === undefined || more.length > 0) throw new TypeError('each pair has a name and a value');
        this.append(name, value);
      }
    } else {
      this.#pairs = pairsOf(String(given).replace(/^\?/, ''));
    }
    if (changed) this.#changed = changed;
  }

  get size() { return this.#pairs.length; }

  append(name, value) {
    this.#pairs.push([String(name).toWellFormed(), String(value).toWellFormed()]);
    this.#changed();
  }

  delete(name, value) {
    this.#pairs = this.#pairs.filter((pair) => !matches(pair, name, value));
    this.#changed();
  }

  get(name) { return this.#pairs.find((pair) => matches(pair, name))?.[1] ?? null; }

  getAll(name) { return this.#pairs.filter((pair) => matches(pair, name)).map(([, value]) => value); }

  has(name, value) { return this.#pairs.some((pair) => matches(pair, name, value)); }

  set(name, value) {
    const first = this.#pairs.find((pair) => matches(pair, name));
    if (!first) return this.append(name, value);
    first[1] = String(value).toWellFormed();
    this.#pairs = this.#pairs.filter((pair) => pair === first || !matches(pair, name));
    this.#changed();
  }

  sort() {
    this.#pairs.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
    this.#changed();
  }

  forEach(callback, self) { for (const [name, value] of this) callback.call(self, value, name, this); }

  *entries() { for (let at = 0; at < this.#pairs.length; at++) yield [...this.#pairs[at]]; }

  *keys() { for (const [name] of this) yield name; }

  *values() { for (const [, value] of this) yield value; }

  [Symbol.iterator]() { return this.entries(); }

  toString() { return this.#pairs.map((pair) => pair.map(formEncoded).join('=')).join('&'); }

  /** For {@link URL} alone: another query, of which it needs no word. */
  static replace(params, query) { params.#pairs = pairsOf(query); }
}

const matches = ([name, value], sought, soughtValue) => {
  return name === String(sought) && (soughtValue === undefined || value === String(soughtValue));
};

const pairsOf = (query) => query.split('&').filter(Boolean).map((pair) => {
  const [, name, value = ''] = /^([^=]*)=?(.*)$/su.exec(pair.replace(/\+/g, ' '));
  return [decode(name), decode(value)];
});

const formEncoded = (text) => encodeURIComponent(text).replace(/[!'()~]|%20/g, (found) => {
  return found === '%20' ? '+' : `%${found.charCodeAt(0).toString(16).toUpperCase()}`;
});

export class URL {
  #parts;
  #params;

  /** @param {string | URL} url @param {string | URL} [base] @throws {TypeError} it is no URL */
  constructor(url, base) {
    this.#parts = parse(String(url), base === undefined ? undefined : parse(String(base)));
  }

  static parse(url, base) {
    try {
      return new URL(url, base);
    } catch {
      return null;
    }
  }

  static canParse(url, base) { return URL.parse(url, base) !== null; }

  get href() {
    const { protocol, user, password, host, path, query, fragment } = this.#parts;
    const login = user || password ? `${user}${password && `:${password}`}@` : '';
    // Without a host, a path that begins with two slashes would read as one.
    const place = host !== null ? `//${login}${this.host}` : path.length > 1 && path[0] === '' && typeof path !== 'string' ? '/.' : '';
    return `${protocol}${place}${this.pathname}${query === null ? '' : `?${query}`}${fragment === null ? '' : `#${fragment}`}`;
  }
  set href(href) {
    this.#parts = parse(String(href));
    this.#refresh();
  }

  get origin() { return isSpecial(this.protocol) && this.protocol !== 'file:' ? `${this.protocol}//${this.host}` : 'null'; }

  get protocol() { return this.#parts.protocol; }
  set protocol(text) {
    const [protocol] = /^[a-z][a-z0-9+.-]*:/i.exec(`${text}:`) ?? [];
    const parts = this.#parts;
    if (!protocol || isSpecial(protocol.toLowerCase()) !== isSpecial(parts.protocol)) return;
    if (parts.protocol === 'file:' || (protocol === 'file:' && (parts.user || parts.password || parts.port))) return;
    parts.protocol = protocol.toLowerCase();
    parts.port = parsedPort(parts.port, parts.protocol);
  }

  get username() { return this.#parts.user; }
  set username(text) { if (this.#parts.host && this.protocol !== 'file:') this.#parts.user = encode(String(text), IN_USER); }

  get password() { return this.#parts.password; }
  set password(text) { if (this.#parts.host && this.protocol !== 'file:') this.#parts.password = encode(String(text), IN_USER); }

  get host() { return `${this.hostname}${this.port && `:${this.port}`}`; }
  set host(text) {
    const [, host, port] = /^(\[[^\]]*\]|[^:/?#\\]*)(?::(\d+))?/.exec(String(text));
    this.#change((parts) => {
      parts.host = this.#hostOf(host);
      if (port !== undefined && parts.protocol === 'file:') throw invalid(text);
      if (port !== undefined) parts.port = parsedPort(port, parts.protocol);
    });
  }

  get hostname() { return this.#parts.host ?? ''; }
  set hostname(text) {
    const [, host, port] = /^(\[[^\]]*\]|[^:/?#\\]*)(:?)/.exec(String(text));
    if (!port) this.#change((parts) => (parts.host = this.#hostOf(host)));
  }

  get port() { return this.#parts.port; }
  set port(text) {
    const [port] = /^\d*/.exec(String(text));
    if (!this.#parts.host || this.protocol === 'file:' || (!port && text !== '')) return;
    this.#change((parts) => (parts.port = parsedPort(port, parts.protocol)));
  }

  get pathname() {
    const { path } = this.#parts;
    return typeof path === 'string' ? path : path.map((segment) => `/${segment}`).join('');
  }
  set pathname(text) {
    if (typeof this.#parts.path === 'string') return;
    const path = isSpecial(this.protocol) ? String(text).replace(/\\/g, '/') : String(text);
    this.#parts.path = path === '' && !isSpecial(this.protocol) ? [] : segments(path, this.protocol, []);
  }

  get search() { return this.#parts.query ? `?${this.#parts.query}` : ''; }
  set search(text) {
    const query = String(text).replace(/^\?/, '');
    this.#parts.query = text === '' ? null : encodeQuery(query, this.protocol);
    this.#refresh();
  }

  get searchParams() {
    return (this.#params ??= new URLSearchParams(this.#parts.query ?? '', () => {
      this.#parts.query = String(this.#params) || null;
    }));
  }

  get hash() { return this.#parts.fragment ? `#${this.#parts.fragment}` : ''; }
  set hash(text) { this.#parts.fragment = text === '' ? null : encode(String(text).replace(/^#/, ''), IN_FRAGMENT); }

  toString() { return this.href; }

  toJSON() { return this.href; }

  #hostOf(text) {
    if (typeof this.#parts.path === 'string' || (!text && isSpecial(this.protocol))) throw invalid(text);
    return parsedHost(text, isSpecial(this.protocol), text);
  }

  /** A setter that is given nonsense changes nothing. */
  #change(change) {
    const parts = { ...this.#parts };
    try {
      change(parts);
      this.#parts = parts;
    } catch {
      // As the standard has it.
    }
  }

  #refresh() { if (this.#params) URLSearchParams.replace(this.#params, this.#parts.query ?? ''); }
}

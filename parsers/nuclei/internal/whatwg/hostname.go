// SPDX-License-Identifier: Apache-2.0

package whatwg

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Hostname is new URL(text).hostname. ok is false where text is not a valid absolute URL. A URL without a host, such as
// mailto:a@example.com, has the host name "".
func Hostname(text string) (host string, ok bool) {
	text = clean(text)
	scheme, rest, ok := cutScheme(text)
	if !ok {
		return "", false
	}
	switch scheme {
	case "http", "https", "ws", "wss", "ftp":
		return authority(strings.TrimLeft(rest, `/\`), true)
	case "file":
		return fileHost(rest)
	}
	if rest, found := strings.CutPrefix(rest, "//"); found {
		return authority(rest, false)
	}
	return "", true
}

// clean drops what the standard drops: control characters and spaces around the text, tabs and line ends anywhere. A
// lone surrogate becomes U+FFFD.
func clean(text string) string {
	text = strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
	if strings.ContainsAny(text, "\t\n\r") {
		text = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(text)
	}
	if utf8.ValidString(text) {
		return text
	}
	var out []byte
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		if size == 1 && len(text) >= 3 && text[0] == 0xED && text[1] >= 0xA0 { // as package finding writes a surrogate
			size = 3
		}
		out = utf8.AppendRune(out, r)
		text = text[size:]
	}
	return string(out)
}

// cutScheme cuts off a scheme, in lower case, and its colon.
func cutScheme(text string) (scheme, rest string, ok bool) {
	for i := range len(text) {
		c := text[i]
		switch {
		case isLetter(c):
		case i > 0 && (isDigit(c) || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			return strings.ToLower(text[:i]), text[i+1:], true
		default:
			return "", "", false
		}
	}
	return "", "", false
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// authority reads credentials, host and port. Special schemes take a backslash for a slash, and need a host.
func authority(text string, special bool) (host string, ok bool) {
	ends := "/?#"
	if special {
		ends = `/\?#`
	}
	if end := strings.IndexAny(text, ends); end >= 0 {
		text = text[:end]
	}
	credentials := strings.LastIndexByte(text, '@')
	text = text[credentials+1:]
	name, port, hasPort := cutPort(text)
	if name == "" && (special || hasPort || credentials >= 0) {
		return "", false
	}
	if !isPort(port) {
		return "", false
	}
	if name == "" {
		return "", true
	}
	return parseHost(name, special)
}

// cutPort cuts at the first colon outside of brackets.
func cutPort(text string) (name, port string, hasPort bool) {
	brackets := false
	for i := range len(text) {
		switch text[i] {
		case '[':
			brackets = true
		case ']':
			brackets = false
		case ':':
			if !brackets {
				return text[:i], text[i+1:], true
			}
		}
	}
	return text, "", false
}

// isPort takes up to 65535 in digits, and nothing, for the default.
func isPort(port string) bool {
	for i := range len(port) {
		if !isDigit(port[i]) {
			return false
		}
	}
	port = strings.TrimLeft(port, "0")
	if port == "" {
		return true
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return err == nil
}

// fileHost reads what follows file: up to the path. A drive letter belongs to the path, and localhost is not a host.
func fileHost(rest string) (host string, ok bool) {
	for range 2 {
		if rest == "" || rest[0] != '/' && rest[0] != '\\' {
			return "", true
		}
		rest = rest[1:]
	}
	if end := strings.IndexAny(rest, `/\?#`); end >= 0 {
		rest = rest[:end]
	}
	if rest == "" || len(rest) == 2 && isLetter(rest[0]) && (rest[1] == ':' || rest[1] == '|') {
		return "", true
	}
	host, ok = parseHost(rest, true)
	if host == "localhost" {
		host = ""
	}
	return host, ok
}

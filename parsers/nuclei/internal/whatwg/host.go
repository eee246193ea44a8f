// SPDX-License-Identifier: Apache-2.0

package whatwg

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/scanyard/scanyard/apis/finding"
)

// forbidden are the characters that no host may have; a domain may not have these, control characters and %.
const forbidden = "\x00\t\n\r #/:<>?@[\\]^|"

func parseHost(text string, special bool) (host string, ok bool) {
	if inner, found := strings.CutPrefix(text, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		if !found {
			return "", false
		}
		return parseIPv6(inner)
	}
	if !special {
		return opaqueHost(text)
	}
	domain, ok := toASCII(percentDecode(text))
	if !ok || domain == "" {
		return "", false
	}
	for i := range len(domain) {
		if c := domain[i]; c < ' ' || c == '%' || c == 0x7F || strings.IndexByte(forbidden, c) >= 0 {
			return "", false
		}
	}
	if endsInNumber(domain) {
		return parseIPv4(domain)
	}
	return domain, true
}

// opaqueHost keeps the host of a scheme that the standard knows nothing about, with what is not ASCII escaped.
func opaqueHost(text string) (string, bool) {
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		if strings.IndexByte(forbidden, c) >= 0 {
			return "", false
		}
		if c < ' ' || c > '~' {
			out = fmt.Appendf(out, "%%%02X", c)
			continue
		}
		out = append(out, c)
	}
	return string(out), true
}

// percentDecode resolves %XX to UTF-8.
func percentDecode(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(c))
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(finding.AppendUTF8(nil, out))
}

// profile is UTS 46 as the standard asks for it: no rules on hyphens, lengths and which ASCII is allowed.
var profile = idna.New(
	idna.MapForLookup(),
	idna.Transitional(false),
	idna.BidiRule(),
	idna.CheckJoiners(true),
	idna.CheckHyphens(false),
	idna.StrictDomainName(false),
	idna.VerifyDNSLength(false),
)

// punycode is how an encoded label begins.
const punycode = "xn--"

// toASCII lower-cases a domain and turns its labels into Punycode.
func toASCII(domain string) (string, bool) {
	ascii := strings.IndexFunc(domain, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
	lower := strings.ToLower(domain)
	if ascii && !strings.Contains(lower, punycode) {
		return lower, true
	}
	for label := range strings.SplitSeq(lower, ".") {
		if label == punycode { // which package idna takes for an empty label
			return "", false
		}
	}
	domain, err := profile.ToASCII(domain)
	return domain, err == nil
}

// endsInNumber reports that a domain must be an IPv4 address, or is none.
func endsInNumber(domain string) bool {
	last := strings.TrimSuffix(domain, ".")
	if last == "" {
		return false
	}
	last = last[strings.LastIndexByte(last, '.')+1:]
	if last == "" {
		return false
	}
	_, ok := ipv4Number(last)
	return ok || strings.Trim(last, "0123456789") == ""
}

// parseIPv4 takes up to four decimal, octal (0…) or hexadecimal (0x…) numbers, the last of which fills up.
func parseIPv4(domain string) (string, bool) {
	parts := strings.Split(strings.TrimSuffix(domain, "."), ".")
	if len(parts) > 4 {
		return "", false
	}
	address := uint64(0)
	for i, part := range parts {
		n, ok := ipv4Number(part)
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if !ok || n>>bits != 0 {
			return "", false
		}
		address = address<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}).String(), true
}

func ipv4Number(part string) (uint64, bool) {
	if part == "" {
		return 0, false
	}
	base := 10
	if len(part) > 1 && part[0] == '0' {
		base, part = 8, part[1:]
		if part[0]|0x20 == 'x' {
			base, part = 16, part[1:]
		}
	}
	part = strings.TrimLeft(part, "0")
	if part == "" {
		return 0, true
	}
	if strings.HasPrefix(part, "+") || strings.HasPrefix(part, "-") {
		return 0, false
	}
	n, err := strconv.ParseUint(part, base, 64)
	if err != nil && strings.Trim(strings.ToLower(part), "0123456789abcdef"[:base]) == "" {
		return 1 << 63, true // a number, too large for any address
	}
	return n, err == nil
}

// parseIPv6 writes an address in its shortest form, and all of it in hexadecimal.
func parseIPv6(text string) (string, bool) {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is6() || address.Zone() != "" || strings.IndexByte(text, '%') >= 0 {
		return "", false
	}
	if address.Is4In6() {
		b := address.As16()
		return fmt.Sprintf("[::ffff:%x:%x]", uint(b[12])<<8|uint(b[13]), uint(b[14])<<8|uint(b[15])), true
	}
	return "[" + address.String() + "]", true
}

// SPDX-License-Identifier: Apache-2.0

package distribution

import "strings"

// challenge is one of a WWW-Authenticate header. The scheme and the names of parameters are in lower case.
type challenge struct {
	scheme     string
	parameters map[string]string
}

// parseChallenges reads what RFC 9110 allows: several headers, several challenges in one, quoted values. What cannot be read ends it.
func parseChallenges(headers []string) []challenge {
	var list []challenge
	for _, text := range headers {
		list = append(list, parseChallenge(text)...)
	}
	return list
}

func parseChallenge(text string) []challenge {
	var list []challenge
	for {
		text = strings.TrimLeft(text, " \t,")
		word, rest := token(text)
		if word == "" {
			return list
		}
		trimmed := strings.TrimLeft(rest, " \t")
		value, isParameter := strings.CutPrefix(trimmed, "=")
		if !isParameter {
			list = append(list, challenge{scheme: strings.ToLower(word), parameters: map[string]string{}})
			text = rest
			continue
		}
		if len(list) == 0 {
			return nil
		}
		read, rest, ok := readValue(strings.TrimLeft(value, " \t"))
		if !ok {
			return list
		}
		list[len(list)-1].parameters[strings.ToLower(word)] = read
		text = rest
	}
}

// token cuts the characters that names have from the front.
func token(text string) (word, rest string) {
	rest = strings.TrimLeftFunc(text, func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~/:", r)
	})
	return text[:len(text)-len(rest)], rest
}

// readValue reads a quoted string or a token.
func readValue(text string) (value, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		value, rest = token(text)
		return value, rest, value != ""
	}
	var read strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return read.String(), text[i+1:], true
		case '\\':
			if i++; i == len(text) {
				return "", "", false
			}
		}
		read.WriteByte(text[i])
	}
	return "", "", false
}

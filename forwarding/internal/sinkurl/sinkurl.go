// SPDX-License-Identifier: Apache-2.0

// Package sinkurl reads a sink as command lines name it: NAME=URL[,KEY=VALUE…]. A comma and a percent sign in the URL are percent-encoded.
//
//	hub=grpcs://hub.example.com:9443,ca=/etc/hub/ca.crt,tokenFile=/etc/hub/token
//
// Secrets are named by files, which are read anew each time somebody asks.
package sinkurl

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanyard/scanyard/forwarding/internal/size"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// Sink is a sink with what the delivery core has to know of it. Zero values are not said.
type Sink struct {
	Config                 sink.Config
	MaxRecords, MaxBytes   int
	RetryInitial, RetryMax time.Duration
}

// Bounds of numbers.
const (
	maxRecords  = 10_000
	minBytes    = 16 << 10
	maxBytes    = 4 << 20
	maxTimeout  = 10 * time.Minute
	maxRetry    = time.Hour
	minInterval = time.Millisecond
)

var nameSyntax = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// options are the keys that only some sinks know. The sink checks their values.
var options = []string{
	"format", "brokers", "endpoint", "region", "pathStyle", "objectLock", "ordered",
	"protocol", "compression", "mechanism", "provesStorage", "stream",
}

// files are the keys that name files with secrets.
var files = []string{"ca", "cert", "key", "tokenFile", "usernameFile", "passwordFile", "credentialsFile", "signingFile"}

// plain are the schemes that say plain text by themselves.
var plain = []string{"grpc", "http", "nats"}

// Parse reads one sink. The error names what is wrong and the remedy, and never shows user names or passwords.
func Parse(text string) (Sink, error) {
	name, rest, found := strings.Cut(text, "=")
	if !found || !nameSyntax.MatchString(name) {
		return Sink{}, errors.New(
			"must be NAME=URL[,KEY=VALUE…] with a name of at most 40 lower-case letters, digits and dashes, such as hub=grpcs://compliance.example.com:443",
		)
	}
	parts := strings.Split(rest, ",")
	keys := map[string]string{}
	for _, part := range parts[1:] {
		key, value, found := strings.Cut(part, "=")
		if !found || value == "" {
			return Sink{}, fmt.Errorf("%s: %q must be KEY=VALUE; write a comma in the URL as %%2C", name, key)
		}
		if _, seen := keys[key]; seen {
			return Sink{}, fmt.Errorf("%s: %s is given twice", name, key)
		}
		keys[key] = value
	}
	s, err := New(name, parts[0], keys)
	if err != nil {
		return Sink{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// New makes a sink of its parts. The name is known to be one.
func New(name, address string, keys map[string]string) (Sink, error) {
	s := Sink{Config: sink.Config{Name: name, Options: map[string]string{}}}
	secrets := Files{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := s.set(key, keys[key], secrets); err != nil {
			return Sink{}, err
		}
	}
	s.Config.Secrets = secrets
	if err := s.setURL(address); err != nil {
		return Sink{}, err
	}
	return s, s.check(secrets)
}

// IsName tells whether a sink may have the name.
func IsName(name string) bool { return nameSyntax.MatchString(name) }

// HeaderPrefix begins the keys of further headers of an HTTP request.
const HeaderPrefix = "header."

// set takes one key.
func (s *Sink) set(key, value string, secrets Files) (err error) {
	switch key {
	case "insecure":
		s.Config.Insecure, err = parseBool(key, value)
	case "tls12":
		s.Config.TLS12, err = parseBool(key, value)
	case "serverName":
		s.Config.ServerName = value
	case "maxRecords":
		s.MaxRecords, err = parseInt(key, value, 1, maxRecords)
	case "maxBytes":
		s.MaxBytes, err = parseSize(key, value)
	case "timeout":
		s.Config.Timeout, err = parseDuration(key, value, maxTimeout)
	case "retryInitial":
		s.RetryInitial, err = parseDuration(key, value, maxRetry)
	case "retryMax":
		s.RetryMax, err = parseDuration(key, value, maxRetry)
	default:
		switch {
		case slices.Contains(options, key), strings.HasPrefix(key, HeaderPrefix):
			s.Config.Options[key] = value
		case slices.Contains(files, key):
			secrets[key] = value
		default:
			known := slices.Concat([]string{"insecure", "tls12", "serverName", "maxRecords", "maxBytes", "timeout", "retryInitial", "retryMax"}, options, files)
			slices.Sort(known)
			return fmt.Errorf("the key %s is not known: use one of %s", key, strings.Join(known, ", "))
		}
	}
	return err
}

// setURL reads where the far end is.
func (s *Sink) setURL(text string) error {
	const remedy = "such as https://compliance.example.com:443"
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("the URL cannot be read: use one %s", remedy)
	}
	shown := *u
	shown.User = nil
	switch {
	case u.User != nil:
		return fmt.Errorf("%s must have no user name or password: use one %s, and name files of secrets by keys", &shown, remedy)
	case u.Scheme == "":
		return fmt.Errorf("%s has no scheme: use one %s", &shown, remedy)
	case u.Scheme == "file":
		if u.Host != "" || u.Path == "" {
			return fmt.Errorf("%s must name a directory, such as file:///var/lib/results", &shown)
		}
	case u.Hostname() == "":
		return fmt.Errorf("%s has no host: use one %s", &shown, remedy)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%s has a port that is none: use one %s", &shown, remedy)
		}
	}
	if u.Fragment != "" || (u.RawQuery != "" && u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%s must have no query and no fragment: use one %s", &shown, remedy)
	}
	s.Config.URL = u
	return nil
}

// check looks at what must fit together.
func (s *Sink) check(secrets Files) error {
	insecure := s.Config.Insecure
	if slices.Contains(plain, s.Config.URL.Scheme) && !insecure {
		return fmt.Errorf("%s would send findings in plain text: use TLS, or say insecure=true where that is meant", s.Config.URL.Scheme)
	}
	if (secrets["cert"] == "") != (secrets["key"] == "") {
		return errors.New("cert and key belong together: name both files")
	}
	if insecure && secrets["tokenFile"] != "" && !trust.IsLoopback(s.Config.URL.Hostname()) {
		return errors.New("insecure would send the token in plain text: remove tokenFile or insecure; only loopback addresses may have both")
	}
	return nil
}

func parseBool(key, value string) (bool, error) {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%s must be true or false", key)
	}
	return b, nil
}

func parseInt(key, value string, lowest, highest int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < lowest || n > highest {
		return 0, fmt.Errorf("%s must be a number from %d to %d", key, lowest, highest)
	}
	return n, nil
}

// parseSize reads the bytes of a batch.
func parseSize(key, value string) (int, error) {
	n, err := size.Parse(value)
	if err != nil || n < minBytes || n > maxBytes {
		return 0, fmt.Errorf("%s must be a size from 16KiB to 4MiB", key)
	}
	return int(n), nil
}

func parseDuration(key, value string, longest time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < minInterval || d > longest {
		return 0, fmt.Errorf("%s must be a duration from %s to %s, such as 5s", key, minInterval, longest)
	}
	return d, nil
}

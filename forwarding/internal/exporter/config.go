// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/scanyard/scanyard/apis/strictyaml"
	"github.com/scanyard/scanyard/forwarding/internal/sinkurl"
)

// text is a value of the file as a flag would have it: a text, a number or true and false.
type text string

// UnmarshalJSON reads the value.
func (t *text) UnmarshalJSON(data []byte) error {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	switch value := value.(type) {
	case string:
		*t = text(value)
	case json.Number:
		*t = text(value)
	case bool:
		*t = text(strconv.FormatBool(value))
	default:
		return errors.New("must be a text or a number")
	}
	return nil
}

// fileSettings are what the file of --config may say. Each field stands for a flag.
type fileSettings struct {
	ClusterID  text         `json:"clusterID"`
	Tenant     text         `json:"tenant"`
	TenantFrom text         `json:"tenantFrom"`
	Intake     fileIntake   `json:"intake"`
	Queue      fileQueue    `json:"queue"`
	Sinks      []sinkOfFile `json:"sinks"`
}

type fileIntake struct {
	Socket fileSocket   `json:"socket"`
	GRPC   fileEndpoint `json:"grpc"`
	Audit  fileEndpoint `json:"audit"`
}

type fileSocket struct {
	Path         text   `json:"path"`
	MaxLineBytes text   `json:"maxLineBytes"`
	AllowUIDs    []text `json:"allowUIDs"`
	AllowGIDs    []text `json:"allowGIDs"`
}

type fileEndpoint struct {
	Listen       text `json:"listen"`
	TLSCertFile  text `json:"tlsCertFile"`
	TLSKeyFile   text `json:"tlsKeyFile"`
	ClientCAFile text `json:"clientCAFile"`
	TokensFile   text `json:"tokensFile"`
	Insecure     text `json:"insecure"`
}

type fileQueue struct {
	MaxBytes       text `json:"maxBytes"`
	TenantMaxBytes text `json:"tenantMaxBytes"`
	DiskReserve    text `json:"diskReserve"`
	OnFull         text `json:"onFull"`
	Sync           text `json:"sync"`
	// EncryptionKeyFiles begin with the one whose key seals.
	EncryptionKeyFiles []text `json:"encryptionKeyFiles"`
}

// setting is a field of the file that stands for a flag.
type setting struct {
	field, flag string
	values      []text
}

func (e fileEndpoint) settings(name string) []setting {
	one := func(field, flag string, value text) setting {
		return setting{"intake." + name + "." + field, name + "-" + flag, []text{value}}
	}
	return []setting{
		one("listen", "listen", e.Listen), one("tlsCertFile", "tls-cert", e.TLSCertFile), one("tlsKeyFile", "tls-key", e.TLSKeyFile),
		one("clientCAFile", "client-ca", e.ClientCAFile), one("tokensFile", "tokens", e.TokensFile), one("insecure", "insecure", e.Insecure),
	}
}

func (f *fileSettings) settings() []setting {
	one := func(field, flag string, value text) setting { return setting{field, flag, []text{value}} }
	socket, queue := f.Intake.Socket, f.Queue
	all := []setting{
		one("clusterID", "cluster-id", f.ClusterID), one("tenant", "tenant", f.Tenant), one("tenantFrom", "tenant-from", f.TenantFrom),
		one("intake.socket.path", "socket", socket.Path), one("intake.socket.maxLineBytes", "max-line-bytes", socket.MaxLineBytes),
		{"intake.socket.allowUIDs", "socket-allow-uid", socket.AllowUIDs},
		{"intake.socket.allowGIDs", "socket-allow-gid", socket.AllowGIDs},
		one("queue.maxBytes", "queue-max-bytes", queue.MaxBytes), one("queue.tenantMaxBytes", "tenant-max-bytes", queue.TenantMaxBytes),
		{"queue.encryptionKeyFiles", "encryption-key-file", queue.EncryptionKeyFiles},
		one("queue.diskReserve", "disk-reserve", queue.DiskReserve), one("queue.onFull", "on-full", queue.OnFull), one("queue.sync", "sync", queue.Sync),
	}
	return append(append(all, f.Intake.GRPC.settings("grpc")...), f.Intake.Audit.settings("audit")...)
}

// withFile gives the flags with what the file says. A flag of the command line goes before the file; given tells which there are.
func (f *flags) withFile(content []byte, given func(flag string) bool) (*settings, error) {
	var said fileSettings
	file, err := strictyaml.Decode(f.config, content, &said)
	if err != nil {
		return nil, &usageError{err}
	}
	problem := func(field string, err error) error {
		return &usageError{errors.New(strictyaml.Problem{File: file.Name(), Line: file.Line(field), Field: field, Message: err.Error()}.String())}
	}
	var merged flags
	set := pflag.NewFlagSet("file", pflag.ContinueOnError)
	merged.bind(set)
	merged = *f // the flags of the set are its fields
	for _, s := range said.settings() {
		for _, value := range s.values {
			if value == "" || given(s.flag) {
				continue
			}
			if err := set.Set(s.flag, string(value)); err != nil {
				return nil, problem(s.field, reason(err))
			}
		}
	}
	if len(said.Sinks) > 0 && len(f.sinks) > 0 {
		return nil, problem("sinks", errors.New("--sink is given as well: name all sinks at one place"))
	}
	var targets []sinkurl.Sink
	for i, one := range said.Sinks {
		target, err := one.target()
		if err != nil {
			return nil, problem(fmt.Sprintf("sinks[%d]", i), err)
		}
		targets = append(targets, target)
	}
	return merged.check(targets)
}

// reason leaves out which flag it would be.
func reason(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}

// load gives the settings of the command line and the file, if there is one, and the file's content.
func (f *flags) load(given func(flag string) bool) (*settings, []byte, error) {
	if f.config == "" {
		s, err := f.check(nil)
		return s, nil, err
	}
	content, err := os.ReadFile(f.config)
	if err != nil {
		return nil, nil, usage("--config: %w", err)
	}
	s, err := f.withFile(content, given)
	return s, content, err
}

// lookEvery is how often the file is looked at.
const lookEvery = 10 * time.Second

// watcher applies the sinks of the file when the file changes. What a file that is wrong says is not applied.
type watcher struct {
	flags  *flags
	given  func(flag string) bool
	hangup <-chan os.Signal
	log    *slog.Logger
	// last is what the file held when it was looked at.
	last []byte
	told string // the last problem
}

// watch looks at the file every ten seconds and on SIGHUP, until ctx ends.
func (w *watcher) watch(ctx context.Context, apply func([]sinkurl.Sink) error, valid func(bool)) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		asked := false
		select {
		case <-ticker.C:
		case <-w.hangup:
			asked = true
		case <-ctx.Done():
			return
		}
		w.look(asked, apply, valid)
	}
}

// look applies the file where it has changed, or where somebody asks for it.
func (w *watcher) look(asked bool, apply func([]sinkurl.Sink) error, valid func(bool)) {
	s, content, err := w.flags.load(w.given)
	if err == nil && bytes.Equal(content, w.last) && !asked && w.told == "" {
		return
	}
	if err == nil {
		err = apply(s.targets)
	}
	if err != nil {
		if asked || err.Error() != w.told {
			w.log.Error("the configuration is not applied; that before stays", "error", err)
		}
		w.told = err.Error()
		valid(false)
		return
	}
	w.log.Info("the sinks of the configuration are applied; what else it says counts from the next start on", "sinks", len(s.targets))
	w.last, w.told = content, ""
	valid(true)
}

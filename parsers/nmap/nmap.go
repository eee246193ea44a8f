// SPDX-License-Identifier: Apache-2.0

package nmap

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/xmlsax"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "nmap-xml",
		Summary:    "nmap XML output (-oX)",
		Kinds:      kinds(),
		Reach:      "hosts that answered, also to -Pn; nothing with -sL, or with -sn and -Pn",
		Parse:      parse,
	}
}

// parse writes the three sections, in one pass if what comes later fits into memory, else in up to three.
func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	hosts := &held[hostSummary]{limit: in.Limits.MaxHeld / 2}
	scripts := &held[scriptFinding]{limit: in.Limits.MaxHeld / 2}
	ports := portWriter{emit: emit}
	count, err := eachHost(ctx, in, func(h *host) error {
		if err := ports.write(h); err != nil {
			return err
		}
		summary := h.summary()
		hosts.add(summary, summary.size())
		return h.scriptFindings(func(s scriptFinding) error {
			scripts.add(s, s.size())
			return nil
		})
	})
	if err != nil {
		return err
	}
	count.reportReach(in)
	if err := writeHosts(ctx, in, hosts, emit); err != nil {
		return err
	}
	return writeScripts(ctx, in, scripts, emit)
}

func writeHosts(ctx context.Context, in *sdk.Input, hosts *held[hostSummary], emit sdk.Emit) error {
	w := hostWriter{emit: emit}
	if hosts.overflown {
		_, err := eachHost(ctx, in, func(h *host) error { return w.write(h.view()) })
		return err
	}
	for _, h := range hosts.items {
		if err := w.write(h); err != nil {
			return err
		}
	}
	return nil
}

func writeScripts(ctx context.Context, in *sdk.Input, scripts *held[scriptFinding], emit sdk.Emit) error {
	write := func(s scriptFinding) error { return emit(s.finding()) }
	if scripts.overflown {
		_, err := eachHost(ctx, in, func(h *host) error { return h.scriptFindings(write) })
		return err
	}
	for _, s := range scripts.items {
		if err := write(s); err != nil {
			return err
		}
	}
	return nil
}

// held keeps items for a later section, all or none of them.
type held[T any] struct {
	items     []T
	used      int
	limit     int
	overflown bool
}

func (h *held[T]) add(item T, size int) {
	if h.overflown {
		return
	}
	if h.used += size; h.used > h.limit {
		h.overflown = true
		h.items = nil
		return
	}
	h.items = append(h.items, item)
}

// hostElements is how many times the largest element a host may take, so that one that answers on all its TCP and UDP
// ports fits with ease.
const hostElements = 2

// eachHost reads the whole input and calls visit for every host that is not down. It counts all of them.
func eachHost(ctx context.Context, in *sdk.Input, visit func(*host) error) (reach, error) {
	raw, err := in.Source.Open(ctx)
	if err != nil {
		return reach{}, err
	}
	defer raw.Close()
	r := reader{
		xml:  xmlsax.NewReader(raw, xmlsax.Limits{MaxTag: in.Limits.MaxElement, MaxDepth: in.Limits.MaxDepth}),
		host: host{limit: hostElements * in.Limits.MaxElement},
	}
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return reach{}, err
		}
		err := r.next()
		if errors.Is(err, io.EOF) {
			return r.reach, nil
		}
		if err != nil {
			return reach{}, explain(err)
		}
		if r.host.down() {
			continue
		}
		if err := r.host.check(); err != nil {
			return reach{}, fmt.Errorf("host %d, before line %d: %w", n+1, r.xml.Line(), err)
		}
		if err := visit(&r.host); err != nil {
			return reach{}, err
		}
	}
}

// explain adds what a user can do about it.
func explain(err error) error {
	if errors.Is(err, xmlsax.ErrTruncated) {
		return fmt.Errorf("read the nmap XML: %w (nmap was probably stopped before its end; run the scan again)", err)
	}
	return fmt.Errorf("read the nmap XML: %w", err)
}

var errNoPort = errors.New("has script results but no port that they could belong to")

// interpreted are the scripts that findings are made of.
const (
	scriptFTPAnon = "ftp-anon"
	scriptBanner  = "banner"
	scriptSMB     = "smb-protocols"
)

const (
	network    = "NETWORK"
	categoryIP = "Open Port"
)

func optional(s string, ok bool) finding.Text {
	if !ok {
		return finding.Text{}
	}
	return finding.String(s)
}

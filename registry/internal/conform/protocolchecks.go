// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

const (
	greeting = 5 * time.Second
	farewell = 10 * time.Second
	burst    = 30
	longLine = 2 << 20
)

// with runs a check on a process, which must have written nothing but answers afterwards.
func with(run func(s *session) error) func(context.Context, *bench) error {
	return func(_ context.Context, b *bench) error {
		s, err := b.open()
		if err != nil {
			return err
		}
		return errors.Join(run(s), s.fault())
	}
}

// wantError wants an answer that is an error with one of some codes.
func wantError(err error, codes ...protocol.Code) error {
	got := protocol.CodeOf(err)
	switch {
	case err == nil:
		return fmt.Errorf("there was a result, and not the error %v", codes)
	case got == "":
		return err
	case !slices.Contains(codes, got):
		return fmt.Errorf("the error is %w, and not one of %v", err, codes)
	}
	return nil
}

// alive wants the next request answered.
func alive(s *session) error {
	if err := s.ask(protocol.Ping, struct{}{}, &struct{}{}); err != nil {
		return fmt.Errorf("ping afterwards: %w", err)
	}
	return nil
}

var protocolChecks = []check{
	{name: "describe is answered within 5 seconds", run: with(func(s *session) error {
		_, answers, err := s.begin(protocol.Describe, nil, struct{}{})
		if err != nil {
			return err
		}
		a, err := s.hear(answers, greeting)
		if err == nil && a.Error != nil {
			return a.Error
		}
		return err
	})},
	{name: "describe has all its members", run: described(func(d protocol.Description) error {
		if d.Name == "" || d.Version == "" || d.Engine.Name == "" || d.Engine.Version == "" {
			return errors.New("name, version, and name and version of the engine must be there")
		}
		if len(d.SBOM.Formats)+len(d.Match.Formats) == 0 {
			return errors.New("an adapter must make SBOMs or match them: sbom.formats or match.formats")
		}
		return nil
	})},
	{name: "describe names protocol 1", run: described(func(d protocol.Description) error {
		if !slices.Contains(d.Protocols, protocol.Version) {
			return fmt.Errorf("protocols are %v", d.Protocols)
		}
		return nil
	})},
	{name: "describe names formats that are known", run: described(func(d protocol.Description) error {
		for _, format := range append(slices.Clone(d.SBOM.Formats), d.Match.Formats...) {
			if format != protocol.SPDX && format != protocol.CycloneDX {
				return fmt.Errorf("there is no format %q", format)
			}
		}
		if len(d.SBOM.Formats) > 0 && !slices.Contains(d.SBOM.Formats, protocol.SPDX) {
			return errors.New("who makes SBOMs must make spdx-json")
		}
		return nil
	})},
	{name: "describe says how many requests may overlap", run: described(func(d protocol.Description) error {
		if len(d.SBOM.Formats) > 0 && d.SBOM.Parallel < 1 || len(d.Match.Formats) > 0 && d.Match.Parallel < 1 {
			return errors.New("parallel must be 1 at least")
		}
		return nil
	})},
	{name: "describe says the same twice", run: with(func(s *session) error {
		var one, two json.RawMessage
		if err := errors.Join(s.ask(protocol.Describe, struct{}{}, &one), s.ask(protocol.Describe, struct{}{}, &two)); err != nil {
			return err
		}
		if string(one) != string(two) {
			return errors.New("the two results differ")
		}
		return nil
	})},
	{name: "ping is answered", run: with(func(s *session) error { return s.ask(protocol.Ping, struct{}{}, &struct{}{}) })},
	{name: "an unknown operation is Unsupported", run: with(func(s *session) error {
		return errors.Join(wantError(s.ask("sing", struct{}{}, &struct{}{}), protocol.Unsupported), alive(s))
	})},
	{name: "unknown members are ignored", run: with(func(s *session) error {
		answers := s.expect("u1")
		if err := s.raw(`{"v":1,"id":"u1","op":"ping","colour":"red","params":{"more":[1,{"a":null}]},"workdir":".","tomorrow":{}}`); err != nil {
			return err
		}
		a, err := s.hear(answers, s.patience)
		if err == nil && a.Error != nil {
			return a.Error
		}
		return err
	})},
	{name: "garbage is passed over", run: with(func(s *session) error {
		return errors.Join(s.raw("garbage"), s.raw("\x00\xff\xfe"), s.raw("[1,2"), s.raw(`"text"`), alive(s))
	})},
	{name: "an empty line is passed over", run: with(func(s *session) error { return errors.Join(s.raw(""), s.raw("   "), alive(s)) })},
	{name: "a line of 2 MiB is passed over", run: with(func(s *session) error {
		return errors.Join(s.raw(strings.Repeat("x", longLine)), alive(s))
	})},
	{name: "a request of another version is an error", run: with(func(s *session) error {
		answers := s.expect("v9")
		if err := s.raw(`{"v":9,"id":"v9","op":"ping"}`); err != nil {
			return err
		}
		a, err := s.hear(answers, s.patience)
		if err == nil && a.Error == nil {
			return errors.New("the request was answered with a result")
		}
		return errors.Join(err, alive(s))
	})},
	{name: "params of another form are InvalidRequest", run: with(func(s *session) error {
		err := s.ask(protocol.Cancel, []int{1}, &struct{}{})
		return errors.Join(wantError(err, protocol.InvalidRequest), alive(s))
	})},
	{name: "answers carry the id of their request", run: with(func(s *session) error {
		for _, id := range []string{"1", `"quoted"`, "ümläut/☃", strings.Repeat("long", 30)} {
			_, answers, err := s.beginAs(id, protocol.Ping, nil, struct{}{})
			if err != nil {
				return err
			}
			if _, err := s.hear(answers, s.patience); err != nil {
				return fmt.Errorf("id %q: %w", id, err)
			}
		}
		return nil
	})},
	{name: "requests overlap and are answered once each", run: with(overlap)},
	{name: "cancel of a request that is not there is answered", run: with(func(s *session) error {
		return s.ask(protocol.Cancel, protocol.CancelParams{Request: "nobody"}, &struct{}{})
	})},
	{name: "the end of input ends the adapter with 0", run: with(func(s *session) error { return errors.Join(alive(s), s.end()) })},
	{name: "the end of input at once ends the adapter with 0", run: with(func(s *session) error { return s.end() })},
	{name: "what was asked before the end of input is answered", run: with(func(s *session) error {
		_, answers, err := s.begin(protocol.Describe, nil, struct{}{})
		if err != nil {
			return err
		}
		if err := s.end(); err != nil {
			return err
		}
		_, err = s.hear(answers, s.patience)
		return err
	})},
	{name: "SIGTERM ends the adapter", run: func(ctx context.Context, b *bench) error {
		s, err := b.open()
		if err != nil {
			return err
		}
		if err := alive(s); err != nil {
			return err
		}
		s.signal(syscall.SIGTERM)
		return within(ctx, farewell, "the end after SIGTERM", s.ended)
	}},
	{name: "nothing is written before the first request", run: with(func(s *session) error {
		// The answer comes after all that was written before.
		return errors.Join(alive(s), s.fault())
	})},
}

// described runs a check on the description.
func described(run func(d protocol.Description) error) func(context.Context, *bench) error {
	return with(func(s *session) error {
		var d protocol.Description
		if err := s.ask(protocol.Describe, struct{}{}, &d); err != nil {
			return err
		}
		return run(d)
	})
}

func overlap(s *session) error {
	var waiting []<-chan protocol.Answer
	for range burst {
		for _, op := range []protocol.Op{protocol.Ping, protocol.Describe} {
			_, answers, err := s.begin(op, nil, struct{}{})
			if err != nil {
				return err
			}
			waiting = append(waiting, answers)
		}
	}
	for _, answers := range waiting {
		if _, err := s.hear(answers, s.patience); err != nil {
			return err
		}
	}
	return alive(s)
}

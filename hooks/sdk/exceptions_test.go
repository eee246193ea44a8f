// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/exception/exceptiontest"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

const oneException = `[{"name":"known","spec":{"status":"Accepted","reason":"until the next release","match":{"anyOf":[{"names":["a*"]}]}}}]`

// TestExceptionsOfAHook: a hook that changes findings counts the open ones anew, and one that cannot read the exceptions says so
// once.
func TestExceptionsOfAHook(t *testing.T) {
	const findings = `[{"id":"1","name":"a","severity":"HIGH","category":"c"},{"id":"2","name":"b","severity":"HIGH","category":"c"}]`
	for name, c := range map[string]struct {
		exceptions string
		status     int
		open       *outcome.Severities
		excepted   int64
		marks      string
		log        string
	}{
		"None":   {"", 0, nil, 0, "--", ""},
		"One":    {oneException, 0, &outcome.Severities{High: 1}, 1, "known-", ""},
		"Gone":   {oneException, 404, nil, 0, "--", "going on without exceptions"},
		"Broken": {"{", 0, nil, 0, "--", "going on without exceptions: the text is not a list of exceptions"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.HandOver, w.Objects["/findings.json"] = true, []byte(findings)
			if c.exceptions != "" {
				w.Objects[sdktest.ExceptionsPath] = []byte(c.exceptions)
			}
			w.Faults = func(_, path string) int {
				if path == sdktest.ExceptionsPath {
					return c.status
				}
				return 0
			}
			marks := ""
			got := w.Run(t, hookOf(true, func(ctx context.Context, s *sdk.Session) error {
				x, err := s.Excepting(ctx)
				if err != nil {
					return err
				}
				err = s.EachFinding(ctx, func(element []byte) error {
					mark, err := x.Mark(element)
					if mark != nil {
						marks += mark.Name
					} else {
						marks += "-"
					}
					return err
				})
				if err != nil {
					return err
				}
				return s.EditFindings(ctx, func(element []byte) ([]byte, error) { return element, nil })
			}), nil)
			if got.ExitCode != 0 || marks != c.marks || strings.Count(got.Stderr, "going on without") > 1 || !strings.Contains(got.Stderr, c.log) {
				t.Fatalf("exit code %d, marks %s: %s", got.ExitCode, marks, got.Stderr)
			}
			o, err := outcome.Decode([]byte(got.LastWords))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.open, o.Findings.Open); diff != "" || o.Findings.Excepted != c.excepted || o.Findings.Count != 2 {
				t.Errorf("%d of %d findings are excepted; open (-want +got):\n%s", o.Findings.Excepted, o.Findings.Count, diff)
			}
		})
	}
}

// TestCasesOfExceptions runs the cases of the specification through what every hook hands on, for each value of EXCEPTED.
func TestCasesOfExceptions(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	exceptiontest.Each(t, "hooks", "ns", now, func(t *testing.T, c *exceptiontest.Case) {
		text, err := exception.HandOver(c.List, exception.Scan{Namespace: "ns", Name: "nmap-x"}, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, policy := range []sdk.Excepted{"", sdk.ExceptedMark, sdk.ExceptedOmit, sdk.ExceptedSend} {
			t.Run(string(policy), func(t *testing.T) {
				w := sdktest.New(t)
				w.HandOver, w.Objects["/findings.json"] = true, []byte("["+c.Finding+"]")
				if text != nil {
					w.Objects[sdktest.ExceptionsPath] = text
				}
				var sent []string
				hook := hookOf(false, func(ctx context.Context, s *sdk.Session) error {
					return s.EachReported(ctx, func(element []byte, mark *exception.Mark) error {
						var f struct {
							Name      string
							Exception *exception.Mark
						}
						if err := json.Unmarshal(element, &f); err != nil {
							return err
						}
						if exceptiontest.Of(mark) != exceptiontest.Of(f.Exception) {
							t.Errorf("marked %s, told %s", exceptiontest.Of(f.Exception), exceptiontest.Of(mark))
						}
						id, err := s.FindingID(element)
						plain, failed := s.FindingID([]byte(c.Finding))
						if id != plain {
							t.Errorf("the mark changes the id")
						}
						sent = append(sent, f.Name+" "+exceptiontest.Of(mark))
						return errors.Join(err, failed)
					})
				})
				hook.Excepted = sdk.ExceptedMark
				if got := w.Run(t, hook, map[string]string{sdk.ExceptedVariable: string(policy)}); got.ExitCode != 0 {
					t.Fatal(got.Stderr)
				}
				want := []string{"lodash 4.17.20 " + c.Want}
				switch {
				case policy == sdk.ExceptedSend:
					want = []string{"lodash 4.17.20 "}
				case policy == sdk.ExceptedOmit && c.Suppressed:
					want = nil
				}
				if diff := cmp.Diff(want, sent); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	})
	w := sdktest.New(t)
	hook := hookOf(false, func(context.Context, *sdk.Session) error { return nil })
	hook.Excepted = sdk.ExceptedMark
	if got := w.Run(t, hook, map[string]string{sdk.ExceptedVariable: "drop"}); got.ExitCode == 0 || !strings.Contains(got.Stderr, `EXCEPTED is "drop", want mark, omit or send`) {
		t.Errorf("exit code %d: %s", got.ExitCode, got.Stderr)
	}
}

// TestExceptionsOfTheStart: a hook keeps the exceptions that it has read, also those that are deleted and those that end meanwhile.
func TestExceptionsOfTheStart(t *testing.T) {
	const ended = `[{"name":"known","spec":{"status":"Accepted","reason":"until the next release","expiresAt":"2020-01-01T00:00:00Z","match":{"anyOf":[{"names":["a*"]}]}}}]`
	w := sdktest.New(t)
	w.HandOver, w.Objects["/findings.json"], w.Objects[sdktest.ExceptionsPath] = true, []byte(`[{"id":"1","name":"a"}]`), []byte(ended)
	gone := false
	w.Faults = func(_, path string) int {
		if gone && path == sdktest.ExceptionsPath {
			return 404
		}
		return 0
	}
	marked := 0
	hook := hookOf(false, func(ctx context.Context, s *sdk.Session) error {
		for range 2 {
			err := s.EachReported(ctx, func(_ []byte, mark *exception.Mark) error {
				if exceptiontest.Of(mark) == "ClusterFindingException/known" {
					marked++
				}
				return nil
			})
			if err != nil {
				return err
			}
			gone = true
		}
		return nil
	})
	hook.Excepted = sdk.ExceptedMark
	if got := w.Run(t, hook, nil); got.ExitCode != 0 || marked != 2 || strings.Contains(got.Stderr, "going on without") {
		t.Errorf("exit code %d, %d of 2 are marked: %s", got.ExitCode, marked, got.Stderr)
	}
}

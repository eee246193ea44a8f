// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

func TestBatches(t *testing.T) {
	cases := map[string]struct {
		limits delivery.Limits
		items  []string
		want   [][]string
		reason string
	}{
		"None":      {delivery.Limits{}, nil, nil, "nothing to say"},
		"One":       {delivery.Limits{}, []string{"a"}, [][]string{{"a"}}, ""},
		"ByCount":   {delivery.Limits{Count: 2}, []string{"a", "b", "c", "d", "e"}, [][]string{{"a", "b"}, {"c", "d"}, {"e"}}, ""},
		"ByBytes":   {delivery.Limits{Bytes: 4}, []string{"aa", "bb", "c", "dddd", "e"}, [][]string{{"aa", "bb"}, {"c"}, {"dddd"}, {"e"}}, ""},
		"LargeOnes": {delivery.Limits{Bytes: 2}, []string{"a", "bbbbbbb", "c"}, [][]string{{"a"}, {"bbbbbbb"}, {"c"}}, "the remote service decides whether it is too large"},
		"EmptyData": {delivery.Limits{Count: 2}, []string{"", "", ""}, [][]string{{"", ""}, {""}}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got [][]string
			number := 0
			b := delivery.New(options(sdktest.New(t))).NewBatcher(c.limits, func(_ context.Context, b *delivery.Batch) ([]delivery.Failure, error) {
				var batch []string
				for _, item := range b.Items {
					if item.ID != "id-"+string(item.Data) {
						t.Errorf("item %q has data %q", item.ID, item.Data)
					}
					batch = append(batch, string(item.Data))
				}
				if b.Number != number {
					t.Errorf("batch %d, want %d", b.Number, number)
				}
				number++
				got = append(got, batch)
				return nil, nil
			})
			for _, item := range c.items {
				data := []byte(item)
				if err := b.Add(t.Context(), "id-"+item, data); err != nil {
					t.Fatal(err)
				}
				for i := range data {
					data[i] = '!' // the caller's bytes are valid during the call only
				}
			}
			if err := b.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" || b.Count() != len(c.items) || b.Batches() != len(c.want) {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// TestPartialFailures has a remote service that takes items in its own time.
func TestPartialFailures(t *testing.T) {
	cases := map[string]struct {
		refuses func(id string, attempt int) *delivery.Failure
		sent    []string
		fails   string
	}{
		"All":      {func(string, int) *delivery.Failure { return nil }, []string{"0 1 2 3", "4 5"}, ""},
		"OneLater": {func(id string, attempt int) *delivery.Failure { return late(id == "2" && attempt < 2) }, []string{"0 1 2 3", "2", "2", "4 5"}, ""},
		"SomeLater": {func(id string, attempt int) *delivery.Failure {
			return late((id == "0" && attempt < 1) || (id == "3" && attempt < 2))
		}, []string{"0 1 2 3", "0 3", "3", "4 5"}, ""},
		"OneNever":  {func(id string, _ int) *delivery.Failure { return late(id == "1") }, []string{"0 1 2 3", "1", "1"}, "given up after 3 attempts: Elsewhere does not take 1 of 1 findings: busy"},
		"OneRefuse": {func(id string, _ int) *delivery.Failure { return never(id == "1", "mapper_parsing_exception") }, []string{"0 1 2 3", "4 5"}, "Elsewhere refuses 1 of 6 findings, such as finding 1: mapper_parsing_exception"},
		"Both": {func(id string, attempt int) *delivery.Failure {
			if id == "5" {
				return never(true, "bad")
			}
			return late(id == "4" && attempt < 1)
		}, []string{"0 1 2 3", "4 5", "4"}, "refuses 1 of 6 findings, such as finding 5: bad"},
		"AllRefused": {func(string, int) *delivery.Failure { return never(true, "token=s3cr3t") }, []string{"0 1 2 3", "4 5"}, "refuses 6 of 6 findings, such as finding 0: token=… finding 1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			attempts := map[string]int{}
			var sent []string
			client := delivery.New(options(sdktest.New(t), func(o *delivery.Options) { o.Attempts = 3 }))
			b := client.NewBatcher(delivery.Limits{Count: 4}, func(_ context.Context, b *delivery.Batch) (failures []delivery.Failure, _ error) {
				sent = append(sent, strings.Join(b.IDs(), " "))
				for i, item := range b.Items {
					if f := c.refuses(item.ID, attempts[item.ID]); f != nil {
						f.Index = i
						failures = append(failures, *f)
					}
					attempts[item.ID]++
				}
				return failures, nil
			})
			var err error
			for i := 0; i < 6 && err == nil; i++ {
				err = b.Add(t.Context(), strconv.Itoa(i), []byte("x"))
			}
			if err == nil {
				err = b.Close(t.Context())
			}
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) || err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("error %v, want %q", err, c.fails)
			}
			if diff := cmp.Diff(c.sent, sent); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}

func late(yes bool) *delivery.Failure {
	if !yes {
		return nil
	}
	return &delivery.Failure{Err: errors.New("busy"), Again: true}
}

func never(yes bool, why string) *delivery.Failure {
	if !yes {
		return nil
	}
	return &delivery.Failure{Err: errors.New(why)}
}

func TestMisunderstoodAnswer(t *testing.T) {
	for _, f := range []delivery.Failure{{Index: 1, Err: errors.New("x")}, {Index: -1, Err: errors.New("x")}, {Index: 0}} {
		b := delivery.New(options(sdktest.New(t))).NewBatcher(delivery.Limits{}, func(context.Context, *delivery.Batch) ([]delivery.Failure, error) {
			return []delivery.Failure{f}, nil
		})
		if err := b.Add(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "in a batch of 1") {
			t.Errorf("%+v: error %v", f, err)
		}
	}
}

func TestBatchBodies(t *testing.T) {
	b := &delivery.Batch{Items: []delivery.Item{{ID: "a", Data: []byte("1")}, {ID: "b", Data: []byte("22")}}}
	for want, body := range map[string]delivery.Body{
		"[1,22]": b.Array(), "1\n22\n": b.Lines(), "<1; 22>": b.Join("<", "; ", ">"), "[]": (&delivery.Batch{}).Array(),
	} {
		for range 2 { // a body can be opened again
			r, err := body.Open()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			if err != nil || string(got) != want || body.Size() != int64(len(want)) {
				t.Errorf("got %q of size %d, %v, want %q", got, body.Size(), err, want)
			}
		}
	}
}

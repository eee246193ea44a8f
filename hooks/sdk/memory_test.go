// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

func TestMain(m *testing.M) { os.Exit(sdktest.Main(m, comparingHook())) }

// comparingHook sends what is new in batches, and then how many are fixed.
func comparingHook() sdk.Hook {
	handle := func(ctx context.Context, s *sdk.Session) error {
		previous, err := s.Compare(ctx)
		if err != nil {
			return err
		}
		client := s.Sender(delivery.Options{Remote: "Bulk"})
		address := s.Scan().Metadata.Annotations["far-end"]
		batches := client.NewBatcher(delivery.Limits{Count: 1000}, func(ctx context.Context, b *delivery.Batch) ([]delivery.Failure, error) {
			_, err := client.Do(ctx, &delivery.Request{URL: address, Body: b.Lines(), Key: s.Key(b.IDs()...)})
			return nil, err
		})
		err = s.Deliver(ctx, batches, func(_ string, element []byte) ([]byte, error) {
			if state, err := previous.State(element); err != nil || state == compare.Known {
				return nil, err
			}
			return element, nil
		})
		if err != nil {
			return err
		}
		return previous.EachFixed(ctx, func(element []byte) error {
			_, err := client.Do(ctx, &delivery.Request{URL: address + "?fixed", Body: delivery.Bytes(element)})
			return err
		})
	}
	return sdk.Hook{Name: "comparing", New: func(sdk.Env) (sdk.Handler, error) { return sdk.HandlerFunc(handle), nil }}
}

// TestMemoryIsBounded compares two runs that share half of their findings. SCANYARD_TEST_FINDINGS changes their number.
func TestMemoryIsBounded(t *testing.T) {
	count := sdktest.HowMany(t, 200_000)
	const fixed = 3
	arrived, gone := 0, 0
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/findings.json":
			writeFindings(rw, 0, count)
		case "/previous.json":
			writeFindings(rw, -fixed, count/2)
		case "/bulk":
			lines := 0
			for scanner := bufio.NewScanner(r.Body); scanner.Scan(); lines++ {
				if !json.Valid(scanner.Bytes()) {
					http.Error(rw, "no JSON", http.StatusBadRequest)
					return
				}
			}
			if r.URL.RawQuery == "fixed" {
				gone++
			} else {
				arrived += lines
			}
		default:
			fmt.Fprintf(rw, `{"kind":"Scan","metadata":{"name":"s","namespace":"ns","annotations":{"far-end":%q}}}`, server.URL+"/bulk")
		}
	}))
	defer server.Close()
	sdktest.Measure(t, server.URL, []string{"PREVIOUS_FINDINGS_URL=" + server.URL + "/previous.json"}, server.URL+"/raw", server.URL+"/findings.json")
	if arrived != count-count/2 || gone != fixed {
		t.Errorf("%d new findings and %d fixed ones arrived, want %d and %d", arrived, gone, count-count/2, fixed)
	}
}

// writeFindings writes findings with the numbers from first to before last. A client that has gone reads no more.
func writeFindings(w io.Writer, first, last int) {
	out := bufio.NewWriter(w)
	defer out.Flush()
	text := strings.Repeat("z", 150)
	separator := "["
	for i := first; i < last; i++ {
		fmt.Fprintf(out, `%s{"name":"Open Port: 22","description":"%s","category":"Open Port","severity":"LOW","fingerprint":"%08x%024x","attributes":{"port":22,"state":"open"}}`,
			separator, text, uint32(i)*2654435761, uint32(i)) // spread over all first bytes
		separator = ","
	}
	fmt.Fprint(out, "]")
}

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
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/compare"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// asHook makes the test binary be a hook, in a process whose memory can be measured. Its value is the API server.
const asHook = "SCANYARD_TEST_AS_HOOK"

func TestMain(m *testing.M) {
	if api := os.Getenv(asHook); api != "" {
		os.Exit(sdk.Run(context.Background(), comparingHook(), sdk.Process{
			Args: os.Args[1:], Env: os.LookupEnv, Stderr: os.Stderr,
			Kubernetes: func() (*rest.Config, error) { return &rest.Config{Host: api}, nil },
		}))
	}
	os.Exit(m.Run())
}

// comparingHook sends what is new in batches, and then how many are fixed.
func comparingHook() sdk.Hook {
	handle := func(ctx context.Context, s *sdk.Session) error {
		previous, err := s.Compare(ctx)
		if err != nil {
			return err
		}
		client := s.Sender(delivery.Options{FarEnd: "Bulk"})
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
	count := 200_000
	if text := os.Getenv("SCANYARD_TEST_FINDINGS"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
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
	cmd := exec.CommandContext(t.Context(), os.Args[0], server.URL+"/raw", server.URL+"/findings.json")
	cmd.Env = append(os.Environ(), asHook+"="+server.URL, "SCAN_NAME=s", "NAMESPACE=ns", "PREVIOUS_FINDINGS_URL="+server.URL+"/previous.json")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no resource usage on this system")
	}
	t.Logf("%d findings, peak RSS %d MiB, CPU %s", count, usage.Maxrss>>10, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if peak := usage.Maxrss >> 10; peak > 64 {
		t.Errorf("peak RSS %d MiB, want at most 64", peak)
	}
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

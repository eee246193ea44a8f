// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// auditLog reads what the API server has written down of its requests.
type auditLog struct {
	file string
	// from is where the next reading begins.
	from int64
}

// request is what kind of request somebody makes.
type request struct{ who, verb, resource string }

// auditEvent is what is read of an Event of audit.k8s.io.
type auditEvent struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
}

// skip leaves out what is there.
func (l *auditLog) skip() error {
	info, err := os.Stat(l.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		l.from = info.Size()
	}
	return err
}

// read counts what was written since. A line that is being written is left for the next time.
func (l *auditLog) read() (map[request]int, error) {
	f, err := os.Open(l.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(l.from, io.SeekStart); err != nil {
		return nil, err
	}
	counts := map[request]int{}
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return counts, nil
		}
		if err != nil {
			return nil, err
		}
		l.from += int64(len(line))
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", l.file, err)
		}
		resource := e.ObjectRef.Resource
		if e.ObjectRef.Subresource != "" {
			resource += "/" + e.ObjectRef.Subresource
		}
		counts[request{whoOf(&e), e.Verb, resource}]++
	}
}

// whoOf names who has made a request, in words of this report.
func whoOf(e *auditEvent) string {
	program, _, _ := strings.Cut(e.UserAgent, "/")
	switch {
	case strings.HasPrefix(e.User.Username, "system:serviceaccount:"):
		return "pods"
	case program == "operator":
		return "operator"
	case program == "bench":
		return "bench"
	case strings.HasSuffix(e.UserAgent, "/generic-garbage-collector"), strings.HasSuffix(e.UserAgent, "/metadata-informers"):
		return "garbage collector"
	case strings.HasSuffix(e.UserAgent, "/job-controller"):
		return "Job controller"
	default:
		return "other parts of Kubernetes"
	}
}

// group puts verbs together: what is read of one object, of many, and what is written.
func group(verb string) string {
	switch verb {
	case "get":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	default:
		return "write"
	}
}

// printRequests prints requests per Scan: sums for everybody, and of the operator each kind.
func printRequests(out io.Writer, all map[request]int, scans int) {
	sums, kinds := map[[2]string]int{}, map[string]int{}
	for r, n := range all {
		sums[[2]string{r.who, group(r.verb)}] += n
		if r.who == "operator" && r.verb != "watch" {
			kinds[r.verb+" "+r.resource] += n
		}
	}
	per := func(n int) string { return fmt.Sprintf("%.2f", float64(n)/float64(scans)) }
	fmt.Fprintf(out, "  requests per Scan: %-26s %8s %8s %8s\n", "", "GET", "LIST", "write")
	for _, who := range []string{"operator", "pods", "garbage collector", "Job controller", "other parts of Kubernetes"} {
		fmt.Fprintf(out, "  %-45s %8s %8s %8s\n", who, per(sums[[2]string{who, "GET"}]), per(sums[[2]string{who, "LIST"}]), per(sums[[2]string{who, "write"}]))
	}
	names := make([]string, 0, len(kinds))
	for k := range kinds {
		names = append(names, k)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a, b)) })
	for _, k := range names {
		fmt.Fprintf(out, "    operator: %-35s %8s\n", k, per(kinds[k]))
	}
}

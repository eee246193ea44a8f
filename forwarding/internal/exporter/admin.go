// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scanyard/scanyard/forwarding/internal/delivery"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
)

const adminSocket = "admin.sock"

// request is one command over a queue.
type request struct {
	Verb        string    `json:"verb"` // ls, verify, replay, drop
	DeadLetters bool      `json:"deadLetters,omitempty"`
	Bodies      bool      `json:"bodies,omitempty"`
	Limit       int       `json:"limit,omitempty"`
	Sink        string    `json:"sink,omitempty"`
	Tenant      string    `json:"tenant,omitempty"`
	IDs         []string  `json:"ids,omitempty"`
	All         bool      `json:"all,omitempty"`
	Before      time.Time `json:"before,omitzero"`
	Yes         bool      `json:"yes,omitempty"`
}

// answer is what came of it.
type answer struct {
	Listing *listing      `json:"listing,omitempty"`
	Report  *queue.Report `json:"report,omitempty"`
	Count   int           `json:"count"`
	Letters int           `json:"letters,omitempty"`
	IDs     []string      `json:"ids,omitempty"`
	Error   string        `json:"error,omitempty"`
}

type listing struct {
	Sinks       []listedSink   `json:"sinks"`
	DeadLetters []listedLetter `json:"deadLetters,omitempty"`
}

type listedSink struct {
	Name        string     `json:"name"`
	Tenant      string     `json:"tenant"`
	Records     uint64     `json:"records"`
	Bytes       int64      `json:"bytes"`
	Oldest      *time.Time `json:"oldest"`
	Cursor      uint64     `json:"cursor"`
	DeadLetters int        `json:"deadLetters"`
	State       string     `json:"state"`
}

type listedLetter struct {
	Sink     string          `json:"sink"`
	Tenant   string          `json:"tenant"`
	ID       string          `json:"id"`
	Class    string          `json:"class"`
	Reason   string          `json:"reason"`
	Message  string          `json:"message"`
	Attempts int             `json:"attempts"`
	Time     time.Time       `json:"time"`
	Bytes    int             `json:"bytes"`
	Record   json.RawMessage `json:"record,omitempty"`
}

type stateOf func(sink, tenant string) delivery.State

// execute does a command on an open queue.
func execute(ctx context.Context, q *queue.Queue, state stateOf, r request) (answer, error) {
	switch r.Verb {
	case "ls":
		l, err := list(q, state, r)
		return answer{Listing: l}, err
	case "verify":
		report, err := q.Verify()
		return answer{Report: &report}, err
	case "replay":
		n, err := q.Replay(queue.Selection{Sink: r.Sink, Tenant: r.Tenant, IDs: r.IDs, All: r.All})
		return answer{Count: n}, err
	case "drop":
		if r.Sink == "" {
			records, letters, err := q.DropTenant(ctx, r.Tenant, !r.Yes)
			return answer{Count: int(records), Letters: letters}, err
		}
		var ids []string
		var err error
		if r.DeadLetters {
			ids, err = q.DropDeadLetters(queue.Selection{Sink: r.Sink, Tenant: r.Tenant, IDs: r.IDs, All: r.All}, !r.Yes)
		} else {
			ids, err = q.DropBefore(r.Sink, r.Tenant, r.Before, !r.Yes)
		}
		return answer{Count: len(ids), IDs: ids}, err
	}
	return answer{}, fmt.Errorf("the verb %q is not known", r.Verb)
}

func list(q *queue.Queue, state stateOf, r request) (*listing, error) {
	backlogs, err := q.Backlogs()
	if err != nil {
		return nil, err
	}
	l := &listing{Sinks: []listedSink{}}
	for _, b := range backlogs {
		row := listedSink{Name: b.Sink, Tenant: b.Tenant, Records: b.Records, Bytes: b.Bytes, Cursor: b.Cursor, DeadLetters: b.DeadLetters}
		row.State = string(state(b.Sink, b.Tenant).Health)
		if !b.Oldest.IsZero() {
			row.Oldest = &b.Oldest
		}
		l.Sinks = append(l.Sinks, row)
		if !r.DeadLetters {
			continue
		}
		letters, err := q.DeadLetters(b.Sink, b.Tenant, false, max(r.Limit-len(l.DeadLetters), 0))
		if err != nil {
			return nil, err
		}
		for _, d := range letters {
			row := listedLetter{
				Sink: b.Sink, Tenant: b.Tenant, ID: d.Record.ID, Class: d.Class, Reason: d.Reason, Message: d.Message, Attempts: d.Attempts, Time: d.Time,
				Bytes: len(d.Record.Line) + len(d.Record.Message),
			}
			if r.Bodies && d.Record.Line != nil {
				row.Record = d.Record.Line
			}
			l.DeadLetters = append(l.DeadLetters, row)
		}
	}
	return l, nil
}

// adminHandler does commands for the same user.
func adminHandler(q *queue.Queue, state stateOf) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /command", func(w http.ResponseWriter, hr *http.Request) {
		var r request
		err := json.NewDecoder(io.LimitReader(hr.Body, 1<<20)).Decode(&r)
		var a answer
		if err == nil {
			a, err = execute(hr.Context(), q, state, r)
		}
		if err != nil {
			a.Error = err.Error()
		}
		writeJSON(w, a, nil)
	})
	return mux
}

// place is the queue that a command is about.
type place struct {
	dir      string
	keyFiles keyFiles
}

func (p *place) bind(set *pflag.FlagSet, what string) {
	set.StringVar(&p.dir, "dir", "", what)
	p.keyFiles.bind(set)
}

// command does a command: through the running exporter where there is one, else on the directory.
func command(ctx context.Context, o Options, p place, r request) (answer, error) {
	dir := p.dir
	if dir == "" {
		return answer{}, usage("--dir is required")
	}
	if _, err := os.Stat(dir); err != nil {
		return answer{}, usage("--dir: %w", err)
	}
	a, err := ask(ctx, dir, r)
	if err == nil || !errors.Is(err, errNobody) {
		return a, err
	}
	keys, err := p.keyFiles.read()
	if err != nil {
		return answer{}, err
	}
	q, err := queue.Open(queue.Options{
		Dir: dir, MaxBytes: 1 << 62, TenantMaxBytes: 1 << 62, OnFull: queue.Block, Now: o.Now, ReadOnly: r.Verb == "ls" || r.Verb == "verify", Keys: keys,
	})
	if err != nil {
		return answer{}, err
	}
	a, err = execute(ctx, q, func(string, string) delivery.State { return delivery.State{Health: delivery.Unknown} }, r)
	return a, errors.Join(err, q.Close())
}

var errNobody = errors.New("nobody answers")

func ask(ctx context.Context, dir string, r request) (answer, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, adminSocket))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNobody, err)
		}
		return conn, nil
	}}}
	body, err := json.Marshal(r)
	if err != nil {
		return answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://exporter/command", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	var a answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return answer{}, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

func newQueue(o Options) *cobra.Command {
	root := &cobra.Command{Use: "queue", Short: "Look at a queue and mend it"}
	root.AddCommand(newList(o), newVerify(o), newReplay(o), newDrop(o), newSalvage(o))
	needsCommand(root, "ls, verify, replay, drop or salvage")
	return root
}

func newList(o Options) *cobra.Command {
	var p place
	var output string
	r := request{Verb: "ls"}
	cmd := &cobra.Command{
		Use: "ls", Short: "List what waits, by sink and tenant", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("output", output, "table", "json"); err != nil {
				return err
			}
			a, err := command(cmd.Context(), o, p, r)
			if err != nil {
				return err
			}
			if output == "json" {
				if r.DeadLetters && a.Listing.DeadLetters == nil {
					return printJSON(o.Out, map[string]any{"sinks": a.Listing.Sinks, "deadLetters": []listedLetter{}})
				}
				return printJSON(o.Out, a.Listing)
			}
			return printTable(o.Out, a.Listing, r.DeadLetters)
		},
	}
	p.bind(cmd.Flags(), "directory of the queue")
	cmd.Flags().StringVar(&output, "output", "table", "table or json")
	cmd.Flags().BoolVar(&r.DeadLetters, "dead-letters", false, "list dead letters, too")
	cmd.Flags().BoolVar(&r.Bodies, "bodies", false, "with the records of dead letters (json)")
	cmd.Flags().IntVar(&r.Limit, "limit", 1000, "dead letters at most")
	return cmd
}

func printJSON(w io.Writer, value any) error {
	line, err := json.Marshal(value)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s\n", line)
	}
	return err
}

func printTable(w io.Writer, l *listing, letters bool) error {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "SINK\tTENANT\tRECORDS\tBYTES\tOLDEST\tCURSOR\tDEAD LETTERS\tSTATE")
	for _, s := range l.Sinks {
		oldest := "-"
		if s.Oldest != nil {
			oldest = s.Oldest.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\t%d\t%d\t%s\n", s.Name, s.Tenant, s.Records, s.Bytes, oldest, s.Cursor, s.DeadLetters, s.State)
	}
	if letters {
		fmt.Fprintln(table, "\nSINK\tTENANT\tID\tREASON\tATTEMPTS\tTIME\tBYTES\tMESSAGE")
		for _, d := range l.DeadLetters {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\n", d.Sink, d.Tenant, d.ID, d.Reason, d.Attempts, d.Time.UTC().Format(time.RFC3339), d.Bytes, d.Message)
		}
	}
	return table.Flush()
}

func newVerify(o Options) *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use: "verify", Short: "Read everything and compare digests and cursors", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := command(cmd.Context(), o, p, request{Verb: "verify"})
			if damaged, ok := errors.AsType[*queue.DamagedError](err); ok {
				return errors.New(damaged.Error()) // not sound, which is exit 1 here
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(o.Out, "%d frames, %d records, %d bytes, %d dead letters, %d cursors, %d sessions\n",
				a.Report.Frames, a.Report.Records, a.Report.Bytes, a.Report.DeadLetters, a.Report.Cursors, a.Report.Sessions)
			for _, problem := range a.Report.Problems {
				fmt.Fprintln(o.Out, problem)
			}
			if n := len(a.Report.Problems); n > 0 {
				return fmt.Errorf("the queue is not sound: %d problems", n)
			}
			return nil
		},
	}
	p.bind(cmd.Flags(), "directory of the queue")
	return cmd
}

func newReplay(o Options) *cobra.Command {
	var p place
	r := request{Verb: "replay"}
	cmd := &cobra.Command{
		Use: "replay", Short: "Try dead letters again", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := selection(r); err != nil {
				return err
			}
			a, err := command(cmd.Context(), o, p, r)
			if err == nil {
				fmt.Fprintf(o.Out, "%d dead letters are tried again\n", a.Count)
			}
			return err
		},
	}
	bindSelection(cmd, &p, &r)
	return cmd
}

func bindSelection(cmd *cobra.Command, p *place, r *request) {
	p.bind(cmd.Flags(), "directory of the queue")
	cmd.Flags().StringVar(&r.Sink, "sink", "", "name of the sink")
	cmd.Flags().StringVar(&r.Tenant, "tenant", "", "only of this tenant")
	cmd.Flags().StringArrayVar(&r.IDs, "id", nil, "id of a record; may be given several times")
	cmd.Flags().BoolVar(&r.All, "all", false, "all dead letters")
}

func selection(r request) error {
	if r.Sink == "" {
		return usage("--sink is required")
	}
	if r.All == (len(r.IDs) > 0) {
		return usage("either --id or --all is required")
	}
	return nil
}

func newDrop(o Options) *cobra.Command {
	var p place
	var before string
	r := request{Verb: "drop"}
	cmd := &cobra.Command{
		Use: "drop", Short: "Give up dead letters, records before a time, or all that is here of a tenant", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Sink == "" && r.Tenant != "" && before == "" && !r.DeadLetters && !r.All && r.IDs == nil {
				return dropTenant(cmd.Context(), o, p, r)
			}
			if err := r.checkDrop(before); err != nil {
				return err
			}
			a, err := command(cmd.Context(), o, p, r)
			if err != nil {
				return err
			}
			for _, id := range a.IDs {
				fmt.Fprintln(o.Err, id)
			}
			fmt.Fprintf(o.Out, "%d records %s\n", a.Count, dropped(r))
			return nil
		},
	}
	bindSelection(cmd, &p, &r)
	cmd.Flags().BoolVar(&r.DeadLetters, "dead-letters", false, "dead letters")
	cmd.Flags().StringVar(&before, "before", "", "records that came in before this time (RFC 3339)")
	cmd.Flags().BoolVar(&r.Yes, "yes", false, "drop; without it the command only tells")
	return cmd
}

// checkDrop looks at what is to be dropped of a sink.
func (r *request) checkDrop(before string) (err error) {
	switch {
	case r.DeadLetters == (before != ""):
		return usage("either --dead-letters or --before is required, or --tenant alone")
	case before == "":
		return selection(*r)
	}
	if r.Before, err = time.Parse(time.RFC3339, before); err != nil {
		return usage("--before: %q is not a time of RFC 3339", before)
	}
	if r.Sink == "" {
		return usage("--sink is required")
	}
	return nil
}

func dropped(r request) string {
	if r.Yes {
		return "were dropped"
	}
	return "would be dropped: say --yes to drop them"
}

// dropTenant removes all that is here of a tenant.
func dropTenant(ctx context.Context, o Options, p place, r request) error {
	a, err := command(ctx, o, p, r)
	if err == nil {
		fmt.Fprintf(o.Out, "%d records and %d dead letters of tenant %s %s\n", a.Count, a.Letters, r.Tenant, dropped(r))
	}
	return err
}

func newSalvage(o Options) *cobra.Command {
	var p place
	var output string
	cmd := &cobra.Command{
		Use: "salvage", Short: "Write what is readable of a damaged queue", Args: noArgs,
		RunE: func(_ *cobra.Command, _ []string) (err error) {
			if p.dir == "" || output == "" {
				return usage("--dir and --output are required")
			}
			keys, err := p.keyFiles.read()
			if err != nil {
				return err
			}
			f, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return usage("--output: %w", err)
			}
			s, err := queue.Salvage(p.dir, keys, f)
			if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
				fmt.Fprintln(o.Out, s.Summary())
			}
			return err
		},
	}
	p.bind(cmd.Flags(), "directory of the damaged queue")
	cmd.Flags().StringVar(&output, "output", "", "file to write, which must not exist")
	return cmd
}

// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/database"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// Console says what there is to look at, and who looks.
type Console struct {
	// Filler fills a database of the reports API server: the tests of reports/internal/bench as a program.
	Filler string
	// Database is sqlite or postgresql.
	Database string
	// Filled is a SQLite database that is copied in place of a new one that is filled; where there is none, the first run keeps it there.
	Filled string
	// Reports of a thousand findings each, and Scans, that there are.
	Reports, Scans int
	// Viewers look at once, for so long.
	Viewers int
	For     time.Duration
	// Export has all findings exported as CSV in the end.
	Export bool
	// Visits is how often each page is looked at by one viewer alone.
	Visits int
}

const (
	consoleTeams = 50 // namespaces that the filler writes to
	pageEvery    = 5 * time.Second
	// sessionPace is slower than the console lets one session ask.
	sessionPace = 60 * time.Millisecond
	// goals of the console's contract
	goalOverview   = 300 * time.Millisecond
	goalFindings   = 200 * time.Millisecond
	goalPage       = 150 * time.Millisecond
	goalFirstVisit = 120 << 10
	goalCores      = 1.0
	goalMemory     = 256 << 20
)

// consolePages are those that are measured, with their goals.
var consolePages = []struct {
	name, path string
	goal       time.Duration
}{
	{"overview", "/", goalOverview},
	{"findings", "/findings", goalFindings},
	{"findings, two facets", "/findings?severity=high&category=category-3", goalFindings},
	{"findings of a team", "/findings?ns=team-7", goalFindings},
	{"scans", "/scans", goalPage},
	{"scans of a team", "/scans?ns=team-7", goalPage},
	{"schedules", "/schedules", goalPage},
	{"exceptions", "/exceptions", goalPage},
	{"policy reports", "/policyreports?ns=team-7", goalPage},
	{"teams", "/teams", goalPage},
	{"one team", "/teams/team-7", goalPage},
	{"boards", "/boards", goalPage},
	{"search", "/search?q=nmap", goalPage},
}

// watchedConsole is a console over a cluster.
type watchedConsole struct {
	o       Options
	c       Console
	cluster *localcluster.Cluster
	reports *reportLoad
	client  client.WithWatch
	url     string
	status  string // where its figures are
	process *exec.Cmd
	said    *bytes.Buffer
}

// PrintConsole fills a reports API server, has one and then many look at the console of the cluster, and prints how long pages take and what
// the console needs.
func PrintConsole(ctx context.Context, o Options, c Console) (err error) {
	cluster, err := localcluster.Start(ctx, localcluster.Options{Binary: filepath.Join(o.Bin, "localcluster"), Timeout: 4 * time.Minute})
	if err != nil {
		return err
	}
	defer cluster.Stop()
	w := &watchedConsole{o: o, c: c, cluster: cluster, said: &bytes.Buffer{}}
	dir, err := os.MkdirTemp("", "scanyard-bench-console-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w.reports = &reportLoad{cluster: cluster, dir: dir, bin: o.Bin, figures: &reportFigures{cpu: map[work]float64{}}}
	defer w.reports.stopServer()
	if c.Database == "postgresql" {
		if w.reports.database, err = database.PostgreSQL(ctx); err != nil {
			return err
		}
		defer w.reports.database.Stop()
	}
	begun := time.Now()
	if err := w.fill(ctx); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%d cores, %s, %s; %d findings in %d namespaces over 90 days (written in %s), %d Scans\n", runtime.NumCPU(), runtime.Version(), c.Database,
		c.Reports*1000, consoleTeams, time.Since(begun).Round(time.Second), c.Scans)
	if err := w.reports.connect(ctx); err != nil {
		return err
	}
	if err := w.reports.startServer(ctx); err != nil {
		return err
	}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	if err := w.start(ctx, dir); err != nil {
		return err
	}
	defer w.stop()
	viewers, err := w.signIn(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(w.alone(ctx, viewers[0]), w.paint(ctx, viewers[0]), w.together(ctx, viewers)); err != nil {
		return err
	}
	if !c.Export {
		return nil
	}
	return w.export(ctx, dir)
}

// fill writes the findings into the database, before the server has it.
func (w *watchedConsole) fill(ctx context.Context) error {
	into, kept := w.reports.file("reports.db"), w.c.Filled
	if w.reports.database != nil {
		var err error
		if into, err = w.reports.options().DSN(); err != nil {
			return err
		}
		kept = ""
	}
	if kept != "" {
		if err := copyFile(into, kept); !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, w.c.Filler, "-test.run=^TestFill$", "-test.timeout=60m", "-databases="+w.c.Database, "-into="+into,
		"-reports="+strconv.Itoa(w.c.Reports), "-results=1000")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fill the database: %w: %s", err, out)
	}
	if kept != "" {
		return copyFile(kept, into)
	}
	return nil
}

// copyFile copies a database that nobody has open.
func copyFile(to, from string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	copied, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, source)
	return errors.Join(err, copied.Close())
}

// prepare makes the namespaces, Scans in several states, and the rights of viewers.
func (w *watchedConsole) prepare(ctx context.Context) error {
	var err error
	config, err := w.cluster.RESTConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = -1, -1
	if w.client, err = scans.Connect(config); err != nil {
		return err
	}
	if err := installCRDs(ctx, w.client, w.o.CRDs); err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bench-viewer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"reports.scanyard.io"}, Resources: []string{"findingqueries", "clusterfindingqueries"}, Verbs: []string{"create"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + reportsService}},
	}
	objects := []client.Object{role, binding}
	for i := range consoleTeams {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team(i)}})
	}
	for _, object := range objects {
		if err := w.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	return w.reports.each(ctx, w.c.Scans, func(i int) error {
		s := scans.New(team(i), fmt.Sprintf("nmap-%05d", i), "nmap", "-sV", fmt.Sprintf("host-%d.example", i%500))
		if err := w.client.Create(ctx, s); err != nil {
			return fmt.Errorf("create Scan %s: %w", s.Name, err)
		}
		return w.say(ctx, s, i)
	})
}

func team(i int) string { return fmt.Sprintf("team-%d", i%consoleTeams) }

// say gives a Scan the state that its number has: most are done.
func (w *watchedConsole) say(ctx context.Context, s *executionv1.Scan, i int) error {
	before := s.DeepCopy()
	n := int64(i % 30)
	switch {
	case i%100 == 1:
		s.Status.State = executionv1.ScanStateScanning
	case i%50 == 2:
		s.Status.State, s.Status.ErrorDescription = executionv1.ScanStateErrored, "The scanner ended with exit code 1."
	default:
		s.Status.State = executionv1.ScanStateDone
		s.Status.Findings = executionv1.FindingStats{Count: &n, FindingSeverities: executionv1.FindingSeverities{High: &n}}
	}
	s.Status.FinishedAt = &metav1.Time{Time: time.Now()}
	return w.client.Status().Patch(ctx, s, client.MergeFrom(before))
}

// start runs the console as its chart does.
func (w *watchedConsole) start(ctx context.Context, dir string) error {
	config, err := w.cluster.RESTConfig()
	if err != nil {
		return err
	}
	key, ca := filepath.Join(dir, "session.key"), filepath.Join(dir, "console-ca.crt")
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	for file, content := range map[string][]byte{key: secret, ca: config.CAData} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
	}
	free, err := ports.Free(2)
	if err != nil {
		return err
	}
	pages, status := "127.0.0.1:"+strconv.Itoa(free[0]), "127.0.0.1:"+strconv.Itoa(free[1])
	w.url, w.status = "http://"+pages, "http://"+status
	w.process = exec.CommandContext(ctx, filepath.Join(w.o.Bin, "console"), "--url="+w.url, "--bind-address="+pages, "--status-bind-address="+status,
		"--session-key-file="+key, "--api-server="+config.Host, "--api-server-ca-file="+ca)
	w.process.Stdout, w.process.Stderr = w.said, w.said
	w.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := w.process.Start(); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.status+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(r)
		if response == nil {
			return false, ctx.Err() // it does not listen yet
		}
		return response.StatusCode == http.StatusOK, errors.Join(err, response.Body.Close())
	})
}

func (w *watchedConsole) stop() {
	_ = w.process.Process.Kill() // it may have ended
	_ = w.process.Wait()
	if w.said.Len() > 0 && strings.Contains(w.said.String(), "A page has failed") {
		fmt.Fprintln(w.o.Out, "the console says:", w.said.String()[:min(w.said.Len(), 2000)])
	}
}

// viewer is a browser of somebody who has signed in.
type viewer struct {
	url    string
	client *http.Client
}

// signIn makes as many accounts as there are viewers, and signs each in with a token.
func (w *watchedConsole) signIn(ctx context.Context) ([]*viewer, error) {
	viewers := make([]*viewer, max(1, w.c.Viewers))
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * len(viewers), DisableCompression: true}
	pace := time.NewTicker(100 * time.Millisecond) // sign-ins from one address are bounded
	defer pace.Stop()
	for i := range viewers {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: reportsService, Name: fmt.Sprintf("viewer-%d", i)}}
		if err := w.client.Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create account: %w", err)
		}
		request := &authenticationv1.TokenRequest{}
		if err := w.client.SubResource("token").Create(ctx, account, request); err != nil {
			return nil, fmt.Errorf("make token: %w", err)
		}
		jar, err := cookiejar.New(nil)
		if err != nil {
			return nil, err
		}
		v := &viewer{url: w.url, client: &http.Client{Jar: jar, Transport: transport}}
		<-pace.C
		if _, err := v.send(ctx, http.MethodPost, "/login", url.Values{"token": {request.Status.Token}, "next": {"/boards"}}); err != nil {
			return nil, fmt.Errorf("sign in: %w", err)
		}
		viewers[i] = v
	}
	return viewers, nil
}

// send loads a page.
func (v *viewer) send(ctx context.Context, method, path string, form url.Values) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, v.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := v.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %.300s", path, response.Status, body)
	}
	if err == nil && strings.HasPrefix(response.Request.URL.Path, "/login") {
		err = fmt.Errorf("%s leads to %s", path, response.Request.URL.Path)
	}
	return body, err
}

var loaded = regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`)

// firstVisit is how many bytes a browser loads that has nothing yet.
func (v *viewer) firstVisit(ctx context.Context, path string) (int, error) {
	page, err := v.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0, err
	}
	sum, seen := len(page), map[string]bool{}
	for _, match := range loaded.FindAllSubmatch(page, -1) {
		asset := string(match[1])
		if seen[asset] {
			continue
		}
		seen[asset] = true
		content, err := v.send(ctx, http.MethodGet, asset, nil)
		if err != nil {
			return 0, err
		}
		sum += len(content)
	}
	return sum, nil
}

// quantile is a time that so many of a hundred do not exceed.
func quantile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[min(len(times)-1, len(times)*percent/100)]
}

func verdict(ok bool) string {
	if ok {
		return "met"
	}
	return "missed"
}

// alone has one viewer look at each page, one after the other.
func (w *watchedConsole) alone(ctx context.Context, v *viewer) error {
	pace := time.NewTicker(sessionPace)
	defer pace.Stop()
	out := tabwriter.NewWriter(w.o.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "one viewer\tfirst ms\tp50 ms\tp95 ms\tgoal\t\tKiB\trequests\tCPU ms console\tAPI server\treports\n")
	for _, page := range consolePages {
		before, err := w.cost(ctx)
		if err != nil {
			return err
		}
		var times []time.Duration
		var first time.Duration
		size := 0
		for i := range max(1, w.c.Visits) {
			select {
			case <-pace.C:
			case <-ctx.Done():
				return ctx.Err()
			}
			begun := time.Now()
			body, err := v.send(ctx, http.MethodGet, page.path, nil)
			if err != nil {
				return err
			}
			took := time.Since(begun)
			if i == 0 {
				first, size = took, len(body)
			}
			times = append(times, took)
		}
		after, err := w.cost(ctx)
		if err != nil {
			return err
		}
		p95, each := quantile(times, 95), after.since(before, len(times))
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%s\t%d\t%s\n", page.name,
			first.Milliseconds(), quantile(times, 50).Milliseconds(), p95.Milliseconds(), page.goal.Milliseconds(),
			verdict(p95 <= page.goal), size>>10, each)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	size, err := v.firstVisit(ctx, "/")
	if err != nil {
		return err
	}
	fmt.Fprintf(w.o.Out, "first visit of the overview: %d KiB, goal %d: %s\n", size>>10, goalFirstVisit>>10, verdict(size <= goalFirstVisit))
	return nil
}

// cost is what pages have cost until now.
type cost struct {
	console            usage.Figures
	apiServer, reports time.Duration
	requests, refused  float64 // of the console to the API server
}

func (w *watchedConsole) cost(ctx context.Context) (c cost, err error) {
	if c.console, err = usage.Of(w.process.Process.Pid); err != nil {
		return c, err
	}
	components, err := w.reports.components(ctx)
	if err != nil {
		return c, err
	}
	for name, sum := range map[string]*time.Duration{localcluster.APIServer: &c.apiServer, localcluster.Etcd: &c.apiServer} {
		p, err := usage.Of(components[name])
		if err != nil {
			return c, err
		}
		*sum += p.CPU
	}
	server, err := usage.Of(w.reports.server.Process.Pid)
	if err != nil {
		return c, err
	}
	c.reports = server.CPU
	return c, w.upstream(ctx, &c)
}

// upstream reads how many requests the console says that it has sent.
func (w *watchedConsole) upstream(ctx context.Context, c *cost) error {
	return get(ctx, w.status+"/metrics", func(lines *bufio.Scanner) {
		for lines.Scan() {
			fields := strings.Fields(lines.Text())
			if !strings.HasPrefix(lines.Text(), "scanyard_console_upstream_requests_total{") || len(fields) < 2 {
				continue
			}
			if n, err := strconv.ParseFloat(fields[len(fields)-1], 64); err == nil {
				c.requests += n
				if strings.Contains(lines.Text(), `code="429"`) {
					c.refused += n
				}
			}
		}
	})
}

// since is what each of so many pages has cost since an earlier time, as columns of a table.
func (c cost) since(before cost, pages int) string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(pages) }
	return fmt.Sprintf("%.1f\t%.1f\t%.1f\t%.1f", (c.requests-before.requests)/float64(pages), ms(c.console.CPU-before.console.CPU),
		ms(c.apiServer-before.apiServer), ms(c.reports-before.reports))
}

// crowd counts what many viewers get.
type crowd struct {
	mu     sync.Mutex
	times  map[string][]time.Duration
	errs   []error
	pages  int
	events atomic.Int64
	live   atomic.Int64
}

func (c *crowd) add(page string, took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	c.pages++
	c.times[page] = append(c.times[page], took)
}

// together has all viewers look: each with one live page open, and at a page every five seconds. A Scan changes every second.
func (w *watchedConsole) together(ctx context.Context, viewers []*viewer) error {
	if w.c.Viewers == 0 {
		return nil
	}
	looking, cancel := context.WithTimeout(ctx, w.c.For)
	defer cancel()
	before, err := w.cost(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	c := &crowd{times: map[string][]time.Duration{}}
	var all sync.WaitGroup
	for i, v := range viewers {
		all.Go(func() { c.watch(looking, v, "/scans/live?ns="+team(i)) })
		all.Go(func() { c.look(looking, v, i, time.Duration(i)*pageEvery/time.Duration(len(viewers))) })
	}
	all.Go(func() { w.change(looking, c) })
	all.Wait()
	took := time.Since(begun)
	after, err := w.cost(ctx)
	if err != nil {
		return err
	}
	wanted := int(float64(len(viewers)) * w.c.For.Seconds() / pageEvery.Seconds())
	fmt.Fprintf(w.o.Out, "%d viewers for %s: %d of %d pages, %d errors, %d live pages, %d live parts\n", len(viewers), took.Round(time.Second), c.pages, wanted,
		len(c.errs), c.live.Load(), c.events.Load())
	for _, err := range c.errs[:min(3, len(c.errs))] {
		fmt.Fprintln(w.o.Out, "  ", err)
	}
	out := tabwriter.NewWriter(w.o.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "all viewers\tpages\tp50 ms\tp95 ms\n")
	for _, page := range consolePages {
		if times := c.times[page.name]; len(times) > 0 {
			fmt.Fprintf(out, "%s\t%d\t%d\t%d\n", page.name, len(times), quantile(times, 50).Milliseconds(), quantile(times, 95).Milliseconds())
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w.o.Out, "for each page: requests, CPU ms of the console, of the API server with etcd, of the reports API server: %s; refused as too many: %.0f\n",
		after.since(before, max(1, c.pages)), after.refused-before.refused)
	cores := (after.console.CPU - before.console.CPU).Seconds() / took.Seconds()
	fmt.Fprintf(w.o.Out, "the console: %.2f cores, goal %.0f: %s; %d MiB, at its peak %d, goal %d: %s\n", cores, goalCores,
		verdict(cores <= goalCores), after.console.Resident>>20,
		after.console.Peak>>20, goalMemory>>20, verdict(after.console.Peak <= goalMemory))
	return nil
}

// look loads pages in turn until the time is over. Viewers begin one after the other.
func (c *crowd) look(ctx context.Context, v *viewer, number int, after time.Duration) {
	next := time.NewTimer(after)
	defer next.Stop()
	for at := number; ; at++ {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		next.Reset(pageEvery)
		page := consolePages[at%len(consolePages)]
		begun := time.Now()
		_, err := v.send(ctx, http.MethodGet, page.path, nil)
		if ctx.Err() != nil {
			return
		}
		c.add(page.name, time.Since(begun), err)
	}
}

// watch keeps a live page open, and counts its parts.
func (c *crowd) watch(ctx context.Context, v *viewer, path string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url+path, http.NoBody)
	if err != nil {
		c.add("", 0, err)
		return
	}
	response, err := v.client.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			c.add("", 0, err)
		}
		return
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		c.add("", 0, fmt.Errorf("%s answers %s", path, response.Status))
		return
	}
	c.live.Add(1)
	buffer := make([]byte, 32<<10)
	for {
		n, err := response.Body.Read(buffer)
		c.events.Add(int64(bytes.Count(buffer[:n], []byte("event: part"))))
		if err != nil {
			return // the time is over
		}
	}
}

// change lets a Scan say something else every second.
func (w *watchedConsole) change(ctx context.Context, c *crowd) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s := &executionv1.Scan{}
		number := i % max(1, w.c.Scans)
		err := w.client.Get(ctx, client.ObjectKey{Namespace: team(number), Name: fmt.Sprintf("nmap-%05d", number)}, s)
		if err == nil {
			before := s.DeepCopy()
			s.Status.State, s.Status.ErrorDescription = executionv1.ScanStateErrored, "It has failed at "+time.Now().Format(time.RFC3339Nano)
			err = w.client.Status().Patch(ctx, s, client.MergeFrom(before))
		}
		if err != nil && ctx.Err() == nil {
			c.add("", 0, err)
		}
	}
}

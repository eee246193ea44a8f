// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	_ "time/tzdata" // for TZ: the image has no files with zones

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// Ways to bring back what DefectDojo knows.
const (
	syncAnnotate = "annotate"
	syncAppend   = "append"
	syncReplace  = "replace"
)

const (
	defaultPages         = 100
	defaultImportTimeout = 15 * time.Minute
	// longestImport is when a delivery ends in any case.
	longestImport = 30 * time.Minute
	// longestWait is what a remote service may ask a hook to wait as well.
	longestWait = 2 * time.Minute
	// maxPage is how large a page of findings may be.
	maxPage = 16 << 20
)

// Hook registers persistence-defectdojo.
func Hook() sdk.Hook {
	return sdk.Hook{
		Name:     "persistence-defectdojo",
		Summary:  "Imports results into DefectDojo and brings its view of the findings back.",
		Excepted: sdk.ExceptedMark,
		Writes:   true,
		Settings: append([]sdk.Setting{
			sdk.ExceptedSetting(sdk.ExceptedMark),
			{Name: "DEFECTDOJO_URL", Text: "where DefectDojo is, without /api/v2; or DEFECTDOJO_URL_FILE"},
			{Name: "DEFECTDOJO_APIKEY", Text: "API v2 key of the user it is done as; or DEFECTDOJO_APIKEY_FILE"},
			{Name: "DEFECTDOJO_LOW_PRIVILEGED_MODE", Text: "true makes neither product types nor a tool configuration, which only global roles may; default false"},
			{
				Name: "DEFECTDOJO_SYNC_MODE",
				Text: "annotate adds what DefectDojo knows to the findings, append also adds findings that only DefectDojo has, replace takes DefectDojo's " +
					"instead; used by a ReadAndWrite hook only; default annotate",
			},
			{Name: "DEFECTDOJO_MAX_PAGE_COUNT_FOR_GETS", Text: "how many pages of 100 are read of a list; default 100"},
			{Name: "DEFECTDOJO_REFETCH_WAIT_SECONDS", Text: "how long DefectDojo is given to find duplicates before findings are read back, up to 120; default 0"},
			{Name: "DEFECTDOJO_IMPORT_TIMEOUT", Text: "how long an import may take, up to 30m; default 15m"},
			{Name: "TZ", Text: "time zone of dates; default UTC"},
		}, sdk.DeliverySettings()...),
		New: newHandler,
	}
}

type handler struct {
	address       string
	key           string
	lowPrivileged bool
	mode          string
	pages         int
	wait          time.Duration
	importTimeout time.Duration
	zone          *time.Location
}

func newHandler(env sdk.Env) (sdk.Handler, error) {
	h := &handler{}
	var err error
	if h.address, err = env.RequireSecret("DEFECTDOJO_URL"); err != nil {
		return nil, err
	}
	if _, err := delivery.ParseURL(h.address); err != nil {
		return nil, fmt.Errorf("DEFECTDOJO_URL %w", err)
	}
	h.address = strings.TrimSuffix(strings.TrimRight(h.address, "/"), "/api/v2")
	if h.key, err = env.RequireSecret("DEFECTDOJO_APIKEY"); err != nil {
		return nil, err
	}
	if h.lowPrivileged, err = env.Bool("DEFECTDOJO_LOW_PRIVILEGED_MODE", false); err != nil {
		return nil, err
	}
	if h.pages, err = env.Count("DEFECTDOJO_MAX_PAGE_COUNT_FOR_GETS", defaultPages); err != nil {
		return nil, err
	}
	if h.importTimeout, err = env.Duration("DEFECTDOJO_IMPORT_TIMEOUT", defaultImportTimeout); err != nil {
		return nil, err
	}
	if h.importTimeout > longestImport {
		return nil, fmt.Errorf("DEFECTDOJO_IMPORT_TIMEOUT is %s, want %s at most", h.importTimeout, longestImport)
	}
	if h.zone, err = time.LoadLocation(env.Get("TZ")); err != nil {
		return nil, fmt.Errorf("TZ is not a time zone: %w", err)
	}
	switch h.mode = env.Get("DEFECTDOJO_SYNC_MODE"); h.mode {
	case "":
		h.mode = syncAnnotate
	case syncAnnotate, syncAppend, syncReplace:
	default:
		return nil, fmt.Errorf("DEFECTDOJO_SYNC_MODE is %q, want annotate, append or replace", h.mode)
	}
	return h, h.setWait(env)
}

func (h *handler) setWait(env sdk.Env) error {
	const name = "DEFECTDOJO_REFETCH_WAIT_SECONDS"
	text := env.Get(name)
	if text == "" || text == "0" {
		return nil
	}
	wait, err := time.ParseDuration(text + "s")
	if err != nil || wait < 0 || wait > longestWait {
		return fmt.Errorf("%s is %q, want a number of seconds up to %d", name, text, int(longestWait.Seconds()))
	}
	h.wait = wait
	return nil
}

// Handle imports the results of a Scan and brings back what DefectDojo made of them.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	target, err := targetOf(s.Scan())
	if err != nil {
		return err
	}
	a := h.newAPI(s)
	r := &resolver{api: a, target: target, lowPrivileged: h.lowPrivileged, now: s.Now().In(h.zone)}
	place, err := r.resolve(ctx)
	if err != nil {
		return err
	}
	i := importer{handler: h, api: a, session: s, target: target, place: place, now: r.now}
	if err := i.run(ctx); err != nil {
		return fmt.Errorf("import into test %d: %w", place.test, err)
	}
	sync := &syncer{handler: h, api: a, session: s, test: place.test}
	switch err := sync.run(ctx); {
	case errors.Is(err, sdk.ErrReadOnly):
		return nil // installed as ReadOnly: nothing is to be brought back
	case err != nil:
		return fmt.Errorf("bring findings back: %w", err)
	}
	return nil
}

func (h *handler) newAPI(s *sdk.Session) *api {
	options := delivery.Options{Remote: "DefectDojo", Secrets: []string{h.key}, MaxAnswer: maxPage}
	once, long := options, options
	once.Attempts = 1
	long.Timeout = h.importTimeout
	return &api{
		address: h.address, pages: h.pages,
		header: http.Header{"Authorization": {"Token " + h.key}, "Accept": {"application/json"}},
		client: s.Sender(options), once: s.Sender(once), long: s.Sender(long),
	}
}

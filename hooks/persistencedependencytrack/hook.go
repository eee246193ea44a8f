// SPDX-License-Identifier: Apache-2.0

package persistencedependencytrack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// Hook registers persistence-dependencytrack.
func Hook() sdk.Hook {
	return sdk.Hook{
		Name:     "persistence-dependencytrack",
		Summary:  "Uploads the SBOM of a Scan to Dependency-Track.",
		Excepted: sdk.ExceptedMark,
		Settings: append([]sdk.Setting{
			{Name: "DEPENDENCYTRACK_URL", Text: "address of Dependency-Track's API server (http or https); or DEPENDENCYTRACK_URL_FILE"},
			{
				Name: "DEPENDENCYTRACK_APIKEY",
				Text: "API key of a team with the permission BOM_UPLOAD, and PROJECT_CREATION_UPLOAD for new projects; or DEPENDENCYTRACK_APIKEY_FILE",
			},
			{Name: "DEPENDENCYTRACK_AUTO_CREATE", Text: "false: projects must be there; default true"},
			{Name: "DEPENDENCYTRACK_ANY_NAME", Text: "true: a component whose name is not an image reference gives its project that name; default false, which fails"},
			{Name: "DEPENDENCYTRACK_WAIT", Text: "how long to wait until the SBOM is processed, such as 5m; default not at all, 5m where an exception holds"},
			{Name: sdk.ExceptedVariable, Text: "mark or omit: exceptions become analysis decisions of what Dependency-Track finds; send: they do not; default mark"},
		}, sdk.DeliverySettings()...),
		New: newHandler,
	}
}

type handler struct {
	address    string // without a slash at its end
	apiKey     string
	autoCreate bool
	anyName    bool
	wait       time.Duration
}

func newHandler(env sdk.Env) (sdk.Handler, error) {
	h := &handler{}
	address, err := env.RequireSecret("DEPENDENCYTRACK_URL")
	if err != nil {
		return nil, err
	}
	if _, err := delivery.ParseURL(address); err != nil {
		return nil, fmt.Errorf("DEPENDENCYTRACK_URL %w", err)
	}
	h.address = strings.TrimRight(address, "/")
	if h.apiKey, err = env.RequireSecret("DEPENDENCYTRACK_APIKEY"); err != nil {
		return nil, err
	}
	if h.autoCreate, err = env.Bool("DEPENDENCYTRACK_AUTO_CREATE", true); err != nil {
		return nil, err
	}
	if h.anyName, err = env.Bool("DEPENDENCYTRACK_ANY_NAME", false); err != nil {
		return nil, err
	}
	h.wait, err = env.Duration("DEPENDENCYTRACK_WAIT", 0)
	return h, err
}

// resultType is the raw result that the hook is for.
const resultType = "sbom-cyclonedx"

// Handle uploads the SBOM, if there is one.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	if kind := s.Scan().Status.RawResultType; kind != resultType {
		s.Notef("the raw result is of type %q, not %s; nothing to upload", kind, resultType)
		return nil
	}
	b, err := readBOM(ctx, s)
	if err != nil {
		return err
	}
	if b == nil {
		s.Notef("the raw result is not CycloneDX in JSON; nothing to upload")
		return nil
	}
	p, err := h.projectOf(s.Scan(), b)
	if err != nil {
		return err
	}
	token, err := h.upload(ctx, s, p)
	if err != nil {
		return err
	}
	s.Notef("uploaded into %s %s", p.name, p.version)
	if h.wait > 0 {
		if err := h.await(ctx, s, token, h.wait); err != nil {
			return fmt.Errorf("%w (DEPENDENCYTRACK_WAIT)", err)
		}
	}
	return h.decide(ctx, s, p, b, token)
}

// usualWait is how long is waited where exceptions have to be told and DEPENDENCYTRACK_WAIT is not set.
const usualWait = 5 * time.Minute

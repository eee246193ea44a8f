// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

// Formats of SBOMs, and what the server calls them.
const (
	formatSPDX      = "spdx"
	formatCycloneDX = "cyclonedx"
)

var documentFormats = map[string]string{formatSPDX: "spdx-json", formatCycloneDX: "cyclonedx-json"}

func newSBOMCommand(s *session.Session) *cobra.Command {
	var o chosen
	d := document{session: s}
	cmd := &cobra.Command{
		Use:   "sbom REF",
		Short: "Print the SBOM of an image, or bring one along",
		Long: `Print the SBOM of an image: its packages as a table, or the document as SPDX 2.3 or CycloneDX 1.6.
The document is passed on as it comes, whatever its length.`,
		Example: `  {{program}} registry sbom shop/api:1.2
  {{program}} registry sbom shop/api:1.2 -o cyclonedx -O api.cdx.json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.check(); err != nil {
				return err
			}
			return printSBOM(cmd.Context(), &d, args[0], o)
		},
	}
	o.bind(cmd)
	d.bind(cmd, formatTable, formatTable, formatSPDX, formatCycloneDX)
	cmd.AddCommand(newImportCommand(s))
	return cmd
}

func printSBOM(ctx context.Context, d *document, text string, o chosen) error {
	r, err := newReader(d.session)
	if err != nil {
		return err
	}
	image, err := r.image(ctx, text, o)
	if err != nil {
		return err
	}
	format := documentFormats[d.format]
	if d.format == formatTable {
		format = documentFormats[formatSPDX]
	}
	body, err := r.open(ctx, image.Namespace, resourceSBOMs, image.Name, "document", "format", format)
	if apierrors.IsNotFound(err) && !isNotServed(err) {
		return fmt.Errorf("%s has no SBOM yet: it is %s%s", called(image), image.Status.State, suffix(", ", image.Status.Reason))
	}
	if err != nil {
		return explainReports(d.session, err)
	}
	err = d.write(func(out io.Writer) error {
		if d.format == formatTable {
			return printPackages(d.table(out), body)
		}
		_, err := io.Copy(out, body)
		return err
	})
	return errors.Join(err, body.Close())
}

// spdx is what is read of a document.
type spdx struct {
	Version  string `json:"spdxVersion"`
	Packages []struct {
		Name    string `json:"name"`
		Version string `json:"versionInfo"`
		License string `json:"licenseDeclared"`
		Refs    []struct {
			Type    string `json:"referenceType"`
			Locator string `json:"referenceLocator"`
		} `json:"externalRefs"`
	} `json:"packages"`
}

// maxDocument bounds what is read into memory, as the server does.
const maxDocument = 256 << 20

// noAssertion is how SPDX says that nothing is said.
const noAssertion = "NOASSERTION"

// printPackages prints the packages of a document that have a package URL; the others are files and the image itself.
func printPackages(table *tableRows, document io.Reader) error {
	var doc spdx
	if err := json.NewDecoder(io.LimitReader(document, maxDocument)).Decode(&doc); err != nil {
		return fmt.Errorf("read the SBOM: %w", err)
	}
	all := [][]string{}
	for _, p := range doc.Packages {
		for _, ref := range p.Refs {
			if ref.Type != "purl" {
				continue
			}
			kind, _, _ := strings.Cut(strings.TrimPrefix(ref.Locator, "pkg:"), "/")
			license := p.License
			if license == noAssertion {
				license = ""
			}
			all = append(all, []string{p.Name, p.Version, kind, license})
		}
	}
	slices.SortStableFunc(all, slices.Compare[[]string])
	if err := table.row([]string{"PACKAGE", "VERSION", "TYPE", "LICENCE"}); err != nil {
		return err
	}
	for _, cells := range all {
		if err := table.row(cells); err != nil {
			return err
		}
	}
	return table.end()
}

func newImportCommand(s *session.Session) *cobra.Command {
	image, platform := "", ""
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Bring an SBOM along for an image that is in no Registry",
		Long: `Store an SBOM that another program has made, with an Image that is marked as external. The document
is SPDX 2.3 as JSON, of 4 MiB at most; - is standard input.

An image is what its digest says, so --image has one: HOST/REPOSITORY[:TAG]@sha256:DIGEST.`,
		Example: `  {{program}} registry sbom import api.spdx.json --image registry.example.com/shop/api:1.2@sha256:…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return importSBOM(cmd.Context(), s, args[0], image, platform)
		},
	}
	cmd.Flags().StringVar(&image, "image", "", "the image that the SBOM is of, with its `digest`")
	cmd.Flags().StringVar(&platform, "platform", "linux/amd64", "the `platform` of the image")
	// It fails only for a flag that does not exist.
	_ = cmd.MarkFlagRequired("image")
	return cmd
}

// maxInline is what an object may hold.
const maxInline = 4 << 20

var digestOfImage = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func importSBOM(ctx context.Context, s *session.Session, file, text, platform string) error {
	ref := parseReference(text)
	host, repository, found := strings.Cut(ref.path, "/")
	if !digestOfImage.MatchString(ref.digest) || !found || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return fmt.Errorf("--image %q must be HOST/REPOSITORY[:TAG]@sha256:… with 64 hex digits", text)
	}
	content, packages, err := readSPDX(s, file)
	if err != nil {
		return err
	}
	r, err := newReader(s)
	if err != nil {
		return err
	}
	image := &reportsv1.Image{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: importedName(ref, platform)}}
	image.Spec = reportsv1.ImageSpec{
		Registry: reportsv1.RegistryRef{Host: host}, Repository: repository, Tag: ref.tag, Digest: ref.digest, Platform: platform, External: true,
	}
	if err := r.Create(ctx, image); err != nil && !apierrors.IsAlreadyExists(err) {
		return explainReports(s, fmt.Errorf("create Image: %w", err))
	}
	if err := r.Get(ctx, client.ObjectKeyFromObject(image), image); err != nil {
		return explainReports(s, fmt.Errorf("get Image: %w", err))
	}
	sum := sha256.Sum256(content)
	sbom := &reportsv1.SBOM{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.namespace, Name: image.Name,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(image, reportsv1.SchemeGroupVersion.WithKind("Image"))},
	}}
	sbom.Spec = reportsv1.SBOMSpec{
		ImageRef: reportsv1.ImageRef{Registry: &reportsv1.RegistryRef{Host: host}, Repository: repository, Tag: ref.tag, Digest: ref.digest, Platform: platform},
		Image:    image.Name, Format: documentFormats[formatSPDX], SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(content)), Packages: packages,
		Origin: reportsv1.OriginImported, SBOM: &runtime.RawExtension{Raw: content},
	}
	if err := r.Create(ctx, sbom); err != nil {
		return explainReports(s, fmt.Errorf("create SBOM: %w", err))
	}
	fmt.Fprintf(s.Out, "sbom/%s created: %s of %s\n", sbom.Name, plural(packages, "package", "packages"), called(image))
	return nil
}

// importedName is a function of what the image is, so that the same SBOM is not stored twice.
func importedName(ref reference, platform string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{ref.path, ref.tag, ref.digest, platform}, "\x00")))
	return "imported-" + hex.EncodeToString(sum[:])[:20]
}

func readSPDX(s *session.Session, file string) (content []byte, packages int64, err error) {
	in := s.In
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, 0, err
		}
		defer opened.Close() //nolint:errcheck // it was read only
		in = opened
	}
	content, err = io.ReadAll(io.LimitReader(in, maxInline+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", file, err)
	}
	if len(content) > maxInline {
		return nil, 0, fmt.Errorf("%s is larger than 4 MiB, which an object may hold", file)
	}
	var doc spdx
	if err := json.Unmarshal(content, &doc); err != nil {
		return nil, 0, fmt.Errorf("%s is not JSON: %w", file, err)
	}
	if !strings.HasPrefix(doc.Version, "SPDX-2.") {
		return nil, 0, fmt.Errorf("%s is not an SPDX 2 document: its spdxVersion is %q", file, termsafe.Line(doc.Version))
	}
	for _, p := range doc.Packages {
		for _, ref := range p.Refs {
			if ref.Type == "purl" {
				packages++
				break
			}
		}
	}
	return content, packages, nil
}

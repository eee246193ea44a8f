// SPDX-License-Identifier: Apache-2.0

package trufflehog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/refs"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

const (
	resultType = "trufflehog-jsonl"
	category   = "Potential Secret"
	// repoURL is the annotation of a Scan that says where the repository can be looked at.
	repoURL = "metadata.scan.securecodebox.io/git-repo-url"
	// includeSecrets is the environment variable that asks, with "true", for the secrets themselves.
	includeSecrets = "INCLUDE_SECRETS"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: resultType,
		Summary:    "trufflehog JSON lines (--json)",
		Kinds:      kinds(),
		Reach:      "secrets; without any it is unknown",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text = sdk.Text | sdk.Optional
	return []sdk.Kind{{
		Category:   category,
		When:       "a secret in one place: HIGH if trufflehog has verified that it works, else MEDIUM",
		Severities: []string{finding.High, finding.Medium},
		Attributes: []sdk.Attribute{
			{Name: "detector", Type: sdk.Text, Doc: "the kind of secret: AWS, Github, PrivateKey, …"},
			{Name: "verified", Type: sdk.Bool},
			{Name: "verification_error", Type: text, Doc: "why it could not be verified"},
			{Name: "decoder", Type: text, Doc: "how it was encoded: PLAIN, BASE64, …"},
			{Name: "offender", Type: text, Doc: "the secret, redacted"},
			{Name: "source", Type: text, Doc: "where trufflehog has looked: Git, Github, Filesystem, Docker, S3, …"},
			{Name: "repository", Type: text},
			{Name: "commit", Type: text, Doc: "a link to it, if the Scan says where the repository is"},
			{Name: "author", Type: text, Doc: "name and address as the commit has them"},
			{Name: "date", Type: text},
			{Name: "file", Type: text},
			{Name: "line_number", Type: sdk.Number | sdk.Optional},
			{Name: "link", Type: text},
			{Name: "container", Type: text, Doc: "what else holds the file: a bucket, an image"},
			{Name: "rotation_guide", Type: text},
			{Name: "details", Type: sdk.Map | sdk.Optional, Doc: "what the detector has found out, such as the account"},
		},
		Identity: []string{"attributes.detector", "location", "attributes.offender"},
	}}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	raw, err := in.Source.Open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	p := lineParser{
		prefix: commitPrefix(in.Scan.Metadata.Annotations[repoURL]),
		plain:  in.Env(includeSecrets) == "true",
	}
	lines := jsonstream.NewLines(raw, in.Limits.JSON())
	secrets := 0
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			reportReach(in, secrets)
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		v, err := lines.Decode(line)
		if err != nil {
			return err
		}
		f, err := p.finding(v)
		if err != nil {
			return lines.Fail(err)
		}
		if f == nil {
			continue
		}
		secrets++
		if err := emit(f); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func reportReach(in *sdk.Input, secrets int) {
	if secrets == 0 {
		in.ReachUnknown("trufflehog has found nothing, and does not report what it has looked through")
		return
	}
	in.Reached("something was looked through: %s", sdk.Counted(secrets, "secret", "secrets"))
}

func commitPrefix(repo string) string {
	if repo == "" {
		return ""
	}
	return strings.TrimSuffix(repo, "/") + "/commit/"
}

type lineParser struct {
	prefix string
	plain  bool
}

// finding is nil for a line of the log.
func (p *lineParser) finding(v any) (*finding.Finding, error) {
	o, ok := v.(finding.Object)
	if !ok {
		return nil, errors.New("is not an object")
	}
	detector, err := jsondoc.Need(o, "DetectorName")
	if err != nil {
		if jsondoc.Text(o, "level") != "" && jsondoc.Member(o, "msg") != nil {
			return nil, nil // no finding is an answer
		}
		return nil, err
	}
	verified, ok := jsondoc.Member(o, "Verified").(bool)
	if !ok {
		return nil, errors.New("does not say whether the secret is Verified")
	}
	f := &finding.Finding{
		Name:       finding.String(detector),
		Category:   finding.String(category),
		OSILayer:   finding.String("APPLICATION"),
		Severity:   finding.String(finding.Medium),
		Attributes: finding.Object{{Key: "detector", Value: detector}, {Key: "verified", Value: verified}},
	}
	state := "which was not verified"
	if verified {
		f.Severity = finding.String(finding.High)
		state = "which works"
	}
	f.Description = finding.String("A secret of the kind " + detector + " was found, " + state + ".")
	if text := jsondoc.Text(o, "DetectorDescription"); text != "" {
		f.Description = finding.String(f.Description.Or("") + " " + text)
	}
	a := &f.Attributes
	jsondoc.Set(a, "verification_error", jsondoc.Text(o, "VerificationError"))
	jsondoc.Set(a, "decoder", jsondoc.Text(o, "DecoderName"))
	jsondoc.Set(a, "offender", p.offender(o))
	p.place(f, o)
	setDetails(f, o)
	return f, p.identify(f, o)
}

// offender is the secret in the form in which the finding may hold it.
func (p *lineParser) offender(o finding.Object) string {
	raw, both := jsondoc.Text(o, "Raw"), jsondoc.Text(o, "RawV2")
	if p.plain {
		return cmp.Or(both, raw)
	}
	// Raw is the secret, or what it is called by where RawV2 has both. Detectors that redact nothing repeat it.
	redacted, namesIt := jsondoc.Text(o, "Redacted"), both != "" && both != raw
	if redacted != "" && redacted != both && (redacted != raw || namesIt) {
		return redacted
	}
	return mask(cmp.Or(raw, both))
}

// mask shows the beginning of secrets that are long enough to remain secrets.
func mask(secret string) string {
	const shown, atLeast = 4, 16
	if secret == "" || utf8.RuneCountInString(secret) < atLeast {
		return "…"
	}
	end := 0
	for range shown {
		_, size := utf8.DecodeRuneInString(secret[end:])
		end += size
	}
	return secret[:end] + "…"
}

// place says where the secret is. The metadata have one member, named after the kind of source.
func (p *lineParser) place(f *finding.Finding, o finding.Object) {
	var kind string
	var data finding.Object
	for _, m := range jsondoc.Object(o, "SourceMetadata", "Data") {
		if inner, ok := m.Value.(finding.Object); ok {
			kind, data = m.Key, inner
			break
		}
	}
	a := &f.Attributes
	repository := cmp.Or(jsondoc.Text(data, "repository"), jsondoc.Text(data, "repo"))
	image := jsondoc.Text(data, "image")
	if tag := jsondoc.Text(data, "tag"); image != "" && tag != "" {
		image += ":" + tag
	}
	container := cmp.Or(jsondoc.Text(data, "bucket"), image, jsondoc.Text(data, "workspace_name"))
	file := cmp.Or(jsondoc.Text(data, "file"), jsondoc.Text(data, "path"), jsondoc.Text(data, "filename"))
	link := jsondoc.Text(data, "link")
	jsondoc.Set(a, "source", kind)
	jsondoc.Set(a, "repository", repository)
	if commit := jsondoc.Text(data, "commit"); commit != "" {
		jsondoc.Set(a, "commit", p.prefix+commit)
	}
	jsondoc.Set(a, "author", jsondoc.Text(data, "email"))
	jsondoc.Set(a, "date", jsondoc.Text(data, "timestamp"))
	jsondoc.Set(a, "file", file)
	if line, ok := jsondoc.Number(data, "line"); ok && line > 0 {
		jsondoc.Set(a, "line_number", line)
	}
	jsondoc.Set(a, "link", link)
	jsondoc.Set(a, "container", container)
	at := file
	if in := cmp.Or(repository, container); in != "" && file != "" {
		at = in + ": " + file
	} else if in != "" {
		at = in
	}
	if at = cmp.Or(at, link); at != "" {
		f.Location = finding.String(at)
	}
}

// setDetails adds what the detector says beside the secret.
func setDetails(f *finding.Finding, o finding.Object) {
	var details finding.Object
	var list refs.List
	for _, m := range jsondoc.Object(o, "ExtraData") {
		text, ok := m.Value.(string)
		switch {
		case !ok:
		case m.Key == "rotation_guide":
			jsondoc.Set(&f.Attributes, "rotation_guide", text)
			list.URL(text)
			f.Mitigation = finding.String("Revoke the secret and issue a new one: " + text)
		default:
			details = append(details, finding.Member{Key: m.Key, Value: text})
		}
	}
	if f.Mitigation.IsAbsent() {
		f.Mitigation = finding.String("Revoke the secret and issue a new one. Removing it from the place where it was found is not enough.")
	}
	jsondoc.Set(&f.Attributes, "details", details)
	f.References = list.References()
}

// identify makes the fingerprint of what the finding does not hold: the secret.
func (p *lineParser) identify(f *finding.Finding, o finding.Object) error {
	secret := cmp.Or(jsondoc.Text(o, "RawV2"), jsondoc.Text(o, "Raw"))
	if secret == "" {
		return nil // the SDK makes it of the kind's identity
	}
	raw, err := finding.AppendValue(nil, []any{resultType, f.Name, f.Location, secret})
	if err != nil {
		return err
	}
	f.Fingerprint = finding.String(finding.Fingerprint(raw))
	return nil
}

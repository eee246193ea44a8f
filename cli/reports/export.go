// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

// document is a form in which the server streams what is known of an image.
type document struct {
	flag, usage           string
	word                  string // of the kind that has it
	subresource, argument string
	value                 string
}

var documents = []document{
	{"sarif", "print the vulnerability report as SARIF", "vulnr", "sarif", "", ""},
	{"jsonl", "print the findings of the vulnerability report, one JSON object a line", "vulnr", "findings", "format", "jsonl"},
	{"spdx", "print the SBOM as SPDX", "sbom", "document", "format", "spdx-json"},
	{"cyclonedx", "print the SBOM as CycloneDX", "sbom", "document", "format", "cyclonedx-json"},
}

func newExportCommand(s *session.Session) *cobra.Command {
	chosen := make([]bool, len(documents))
	cmd := &cobra.Command{
		Use:   "export NAME",
		Short: "Print the vulnerability report or the SBOM of an image in a format of other programs",
		Long: `Print the vulnerability report or the SBOM of an image in a format of other programs. The name is
that of the image. The document is passed on as it comes, whatever its length. It needs the
reports API server.`,
		Example: examples(s, `  {{reports}} export --sarif shop > shop.sarif
  {{reports}} export --spdx shop > shop.spdx.json`),
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, on := range chosen {
				if on {
					return export(cmd.Context(), s, &documents[i], args[0])
				}
			}
			return errors.New("nothing to print: choose one of --sarif, --jsonl, --spdx and --cyclonedx")
		},
	}
	names := make([]string, 0, len(documents))
	for i := range documents {
		cmd.Flags().BoolVar(&chosen[i], documents[i].flag, false, documents[i].usage)
		names = append(names, documents[i].flag)
	}
	cmd.MarkFlagsMutuallyExclusive(names...)
	return cmd
}

// export passes on a document of the server.
func export(ctx context.Context, s *session.Session, d *document, name string) error {
	k, err := kindOf(d.word)
	if err != nil {
		return err
	}
	config, err := s.Config()
	if err != nil {
		return err
	}
	namespace, err := s.Namespace()
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &reportsv1alpha1.SchemeGroupVersion, "/apis"
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // refusals are of it
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return s.Explain(err)
	}
	request := client.Get().Namespace(namespace).Resource(k.resource).Name(name).SubResource(d.subresource).SetHeader("Accept", "*/*")
	if d.argument != "" {
		request = request.Param(d.argument, d.value)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return explain(s, k, err)
	}
	_, err = io.Copy(s.Out, body)
	if err = errors.Join(err, body.Close()); err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	return nil
}

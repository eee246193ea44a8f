// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

var _ = Describe("Admission", Label("admission", "smoke"), func() {
	// Is about the way from the API server to the operator as the chart sets it up; what is refused is
	// tested beside the code.
	It("refuses a mistake in a rule, and names its field", func(ctx SpecContext) {
		ns := namespace(ctx)
		rule := &cascadingv1.CascadingRule{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "typo"},
			Spec: cascadingv1.CascadingRuleSpec{
				Matches:  cascadingv1.Matches{Expression: `finding.categry == "Open Port"`},
				ScanSpec: executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"{{location}}"}},
			},
		}
		var err error
		// The operator writes its authority into the configuration some time after it is ready.
		waited := wait.PollUntilContextCancel(bounded(ctx), 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			err = w.admin.Create(ctx, rule.DeepCopy(), client.DryRunAll)
			return err != nil, nil
		})
		if waited != nil || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec.matches.expression`) || !strings.Contains(err.Error(), `no field "categry"`) {
			Fail(fmt.Sprintf("the API server says %v (%v), want a refusal that names the field", err, waited))
		}
		rule.Spec.Matches.Expression = `finding.category == "Open Port"`
		create(ctx, rule)
	})
})

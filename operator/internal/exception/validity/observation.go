// SPDX-License-Identifier: Apache-2.0

package validity

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
)

// Observation is everything that is read before a decision.
type Observation struct {
	Now time.Time
	// Exception is what is decided about; nil if ClusterException is.
	Exception        *settingsv1alpha2.FindingException
	ClusterException *settingsv1alpha2.ClusterFindingException
	// Made is what is known of who made and who changed the exception. Admission says that the operator serves the
	// webhook that stamps exceptions.
	Made      stamp.Stamp
	Admission bool
	// Matches are the ended Scans that say how many findings the exception matched. They are used if Counted.
	Matches []Match
	Counted bool
}

// Match is what an ended Scan says of the exception.
type Match struct {
	// Findings is how many findings the exception matched.
	Findings int64
	// Latest says that no later Scan of the same target has ended.
	Latest bool
	// FinishedAt is when the Scan ended; nil if that is not known.
	FinishedAt *metav1.Time
}

// subject returns what is observed of either kind.
func (o *Observation) subject() (e exception.Exception, generation int64, status *settingsv1alpha2.FindingExceptionStatus) {
	if o.Exception != nil {
		return exception.Of(o.Exception), o.Exception.Generation, &o.Exception.Status
	}
	return exception.OfCluster(o.ClusterException), o.ClusterException.Generation, &o.ClusterException.Status
}

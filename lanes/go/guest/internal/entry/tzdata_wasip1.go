//go:build svc_tzdata

package entry

import _ "time/tzdata" // The lane adds this build tag if svc.toml sets TZ.

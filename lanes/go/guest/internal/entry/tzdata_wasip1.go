//go:build svc_tzdata

package entry

import _ "time/tzdata" // The lane asks for it where svc.toml sets TZ.

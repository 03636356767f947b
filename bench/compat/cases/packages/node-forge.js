// node-forge
import forge from 'node-forge';
import { checks } from '../checks.js';

const PEM = `-----BEGIN CERTIFICATE-----
MIIDETCCAfmgAwIBAgIUOVsGDWqZCsUZAP4mYk49j4Wc06kwDQYJKoZIhvcNAQEL
BQAwFzEVMBMGA1UEAwwMc2hvcC5leGFtcGxlMCAXDTI2MTEyOTAxNTEzN1oYDzIw
NTEwNzIxMDE1MTM3WjAXMRUwEwYDVQQDDAxzaG9wLmV4YW1wbGUwggEiMA0GCSqG
SIb3DQEBAQUAA4IBDwAwggEKAoIBAQDLnw3UdYz+mICpz1ESMRG7AJaHn/BzaJUI
mc9V7dVBBCemA/ldNHqUhKWzSH7qH8wvBKqeqMS28kcW3kyWty2RyFlG15ruxnzG
rutlE8jjsst6fZiH/2TX4YopkhOVE6dD69MOdojODa8qeR7Jia/HtshNseuEiATW
cY5cxlCS9nuJDFekoH3/rBGBgJtzVDV0rTagG17bLYmE9C+pyQutELWZpGRAom1f
grQbLHoMBgyqQWVe057pxUTKIiVeO8TrHuFbwelxSJzLgNxUMtZbjg3kaCwyzZyB
+Q4Plyv9DXbheLcdxIpfQSgOlhZyxTpXvW+7j07op9hvyr/1ajLnAgMBAAGjUzBR
MB0GA1UdDgQWBBQBPTc23Kn8YkhZ2sIcMKkGua1ArjAfBgNVHSMEGDAWgBQBPTc2
3Kn8YkhZ2sIcMKkGua1ArjAPBgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUA
A4IBAQBYpNA2feXch554LLOTHj6651RRwaHx3aDf1eWBZp9U50OPe86IV2TB3nTf
q9lqoEwXuNg4MnEz6wd/0hkqeGgDaM1WYupbXuo74YcUT9zUWyd430BBlslh7JVA
pC5aLRFpGltaCdh/JxDDUEy+PSkZyO5V7L5Nmvh/zf+A+mZGHYOkUnCv4/jBHgqu
jfk5XAZs/nid2PItZOFmRfZN2nfhawA12Bw/Smo8dIirdcxqEyvIUVR/u6JhGcaM
l0XsD3DDXJjbKAS8el0jjQncfSuU8xZRLWGKM3PhnP2mdcnRSbqJyhco/cOnTxBh
YawZbMdm9vc3uRE6Noxst9mjER0W
-----END CERTIFICATE-----
`;

export default checks({
  'hash and certificate': () => [forge.md.sha256.create().update('tea').digest().toHex(), forge.util.encode64('tea'), forge.pki.certificateFromPem(PEM).subject.getField('CN').value],
});

// jose
import * as jose from 'jose';
import { bytes, checks, thrown } from '../checks.js';

async function signed(algorithm) {
  const { publicKey, privateKey } = await jose.generateKeyPair(algorithm, { extractable: true });
  const token = await new jose.SignJWT({ role: 'admin' }).setProtectedHeader({ alg: algorithm }).setSubject('ada').setExpirationTime('1h').sign(privateKey);
  const { kty } = await jose.exportJWK(publicKey);
  const { payload, protectedHeader } = await jose.jwtVerify(token, publicKey);
  const wrong = await thrown(() => jose.jwtVerify(token.slice(0, -8) + 'AAAAAAAA', publicKey));
  return [payload.sub, payload.role, protectedHeader.alg, kty, wrong];
}

const RSA = {
  kty: 'RSA', e: 'AQAB',
  n: 'ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ',
};
const RSA_TOKEN = 'eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw';

export default checks({
  'HS256': async () => {
    const token = await new jose.SignJWT({ a: 1 }).setProtectedHeader({ alg: 'HS256' }).sign(bytes('secret'.repeat(6)));
    return [token, (await jose.jwtVerify(token, bytes('secret'.repeat(6)))).payload];
  },
  'RS256 of RFC 7515': async () => {
    const { payload } = await jose.compactVerify(RSA_TOKEN, await jose.importJWK(RSA, 'RS256'));
    return new TextDecoder().decode(payload);
  },
  'RS256': () => signed('RS256'),
  'PS256': () => signed('PS256'),
  'ES256': () => signed('ES256'),
  'EdDSA': () => signed('EdDSA'),
  'encryption': async () => {
    const key = new Uint8Array(32).fill(7);
    const token = await new jose.EncryptJWT({ a: 1 }).setProtectedHeader({ alg: 'dir', enc: 'A256GCM' }).encrypt(key);
    return (await jose.jwtDecrypt(token, key)).payload;
  },
  'ECDH-ES': async () => {
    const { publicKey, privateKey } = await jose.generateKeyPair('ECDH-ES+A256KW');
    const text = await new jose.CompactEncrypt(bytes('tea')).setProtectedHeader({ alg: 'ECDH-ES+A256KW', enc: 'A128CBC-HS256' }).encrypt(publicKey);
    return new TextDecoder().decode((await jose.compactDecrypt(text, privateKey)).plaintext);
  },
  'PEM keys': async () => {
    const { publicKey, privateKey } = await jose.generateKeyPair('ES256', { extractable: true });
    const imported = await jose.importPKCS8(await jose.exportPKCS8(privateKey), 'ES256');
    const token = await new jose.SignJWT({}).setProtectedHeader({ alg: 'ES256' }).sign(imported);
    return (await jose.jwtVerify(token, await jose.importSPKI(await jose.exportSPKI(publicKey), 'ES256'))).protectedHeader;
  },
  'expired': async () => {
    const token = await new jose.SignJWT({}).setProtectedHeader({ alg: 'HS256' }).setExpirationTime(1).sign(new Uint8Array(32));
    return jose.jwtVerify(token, new Uint8Array(32)).catch(({ code }) => code);
  },
  'thumbprint': () => jose.calculateJwkThumbprint(RSA),
});

// @aws-sdk/client-s3
import { GetObjectCommand, ListObjectsV2Command, NoSuchKey, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { checks } from '../checks.js';

function client(env) {
  return new S3Client({
    region: 'eu-central-1', endpoint: env.UPSTREAM, forcePathStyle: true, credentials: { accessKeyId: 'a', secretAccessKey: 'b' }, maxAttempts: 1,
  });
}

export default checks({
  'get': async (env) => {
    const { Body, ContentType } = await client(env).send(new GetObjectCommand({ Bucket: 'bucket', Key: 'key' }));
    return [ContentType, await Body.transformToString()];
  },
  'put': async (env) => {
    const { $metadata } = await client(env).send(new PutObjectCommand({ Bucket: 'bucket', Key: 'key', Body: 'tea' }));
    return $metadata.httpStatusCode;
  },
  'list': async (env) => {
    const { Contents } = await client(env).send(new ListObjectsV2Command({ Bucket: 'bucket' }));
    return Contents.map(({ Key, LastModified, Size }) => [Key, LastModified, Size]);
  },
  'missing key': (env) => client(env).send(new GetObjectCommand({ Bucket: 'bucket', Key: 'none' })).catch(
    (error) => [error instanceof NoSuchKey, error.name, error.Code, error.message]),
  'denied': (env) => client(env).send(new PutObjectCommand({ Bucket: 'bucket', Key: 'denied', Body: 'tea' })).catch(
    ({ name, Code, $metadata }) => [name, Code, $metadata.httpStatusCode]),
  'error': (env) => client(env).send(new GetObjectCommand({ Bucket: 'status', Key: '404' })).catch(({ $metadata }) => $metadata.httpStatusCode),
});

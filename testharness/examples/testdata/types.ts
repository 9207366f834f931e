// Compiles only if the types of the SDK and those of the API's description are the same.
import type { components, webhooks } from './openapi.js';
import type { ErrorCode, ErrorDetail, Event, Session, StartRequest, StartResponse, ValidateResponse } from '@verge-id/sdk';

type Described = components['schemas'];
type Failing = webhooks['webhook.failing']['post']['requestBody']['content']['application/json'];
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;

const same: [
  Same<StartRequest & { public_key?: string | null }, Described['StartRequest']>,
  Same<StartResponse, Described['StartResponse']>,
  Same<ValidateResponse, Described['ValidateResponse']>,
  Same<Session, Described['Session']>,
  Same<Event, Described['Event'] | Failing>,
  Same<ErrorCode, Described['ErrorCode']>,
  Same<ErrorDetail, Described['ErrorDetail']>,
] = [true, true, true, true, true, true, true];
export default same;

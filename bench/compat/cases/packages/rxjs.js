// rxjs
import { catchError, concatMap, from, interval, lastValueFrom, map, of, reduce, Subject, take, throwError, toArray } from 'rxjs';
import { checks } from '../checks.js';

export default checks({
  'operators': () => lastValueFrom(from([1, 2, 3]).pipe(map((n) => n * 2), reduce((a, b) => a + b))),
  'timers': () => lastValueFrom(interval(1).pipe(take(3), concatMap((n) => of(n, n)), toArray())),
  'errors': () => lastValueFrom(throwError(() => new Error('no')).pipe(catchError((error) => of(error.message)))),
  'subject': () => {
    const seen = [], subject = new Subject();
    subject.subscribe((value) => seen.push(value));
    subject.next('a');
    subject.complete();
    return seen;
  },
});

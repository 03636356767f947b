// Defines String.prototype.normalize.
import 'unorm';

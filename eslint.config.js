// What the type checker does not see: names that nobody uses, and habits that hide mistakes.

const rules = {
  'no-unused-vars': ['error', { args: 'after-used', caughtErrors: 'all' }],
  'no-var': 'error',
  'prefer-const': 'error',
  eqeqeq: 'error',
  'no-shadow': ['error', { builtinGlobals: false, hoist: 'functions' }],
  'no-implied-eval': 'error',
  'no-eval': 'error',
  'no-new-func': 'error',
  'no-script-url': 'error',
  'no-console': ['error', { allow: ['error'] }],
  'no-debugger': 'error',
  'no-dupe-keys': 'error',
  'no-duplicate-imports': 'error',
  'no-self-compare': 'error',
  'no-self-assign': 'error',
  'no-unreachable': 'error',
  'no-unsafe-finally': 'error',
  'no-useless-assignment': 'error',
  'no-useless-return': 'error',
  'no-fallthrough': 'error',
  'no-cond-assign': 'error',
  'no-empty': 'error',
  'no-loss-of-precision': 'error',
  'no-constant-binary-expression': 'error',
  'no-promise-executor-return': 'off',
  'require-atomic-updates': 'off',
  'use-isnan': 'error',
  'valid-typeof': 'error',
};

export default [
  { ignores: ['node_modules/', '.venv*/', 'build/', 'dist/', '**/*.d.ts'] },
  { files: ['src/regard/serve/page/**/*.js', 'tests/page/unit/*.js', 'eslint.config.js'], rules },
];

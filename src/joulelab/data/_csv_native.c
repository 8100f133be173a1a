// SPDX-License-Identifier: Apache-2.0
/* The reader of numeric CSV in C: the contract of csv_kernel.py, three speeds, one result.
 *
 * No variant reads a byte outside the range that it is given, or writes a cell outside the rows that are begun in it.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include "_csv_native.h"

#include <fenv.h>
#include <string.h>

static Py_ssize_t run_portable(Reader *r)
{
    return r->stop;  // nothing done: csv_parse takes it all
}

static const Variant variants[] = {
#ifdef CSV_X86
    {"avx512", csv_has_avx512, csv_run_avx512, csv_newlines_avx512},
    {"avx2", csv_has_avx2, csv_run_avx2, csv_newlines_avx2},
#endif
    {"portable", NULL, run_portable, csv_newlines_portable},
};
#define VARIANTS (sizeof variants / sizeof *variants)

static int usable(const Variant *v) { return v->has == NULL || v->has(); }

static const Variant *choose(const char *name)
{
    for (size_t k = 0; k < VARIANTS; k++)
        if (usable(&variants[k]) && (name == NULL || strcmp(name, variants[k].name) == 0))
            return &variants[k];
    PyErr_Format(PyExc_ValueError, "variant '%s' is not one that this processor runs", name);
    return NULL;
}

static PyObject *count_newlines(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer data;
    Py_ssize_t start, stop;
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "y*nn|z", &data, &start, &stop, &name))
        return NULL;
    const Variant *variant = choose(name);
    Py_ssize_t count = 0;
    if (variant && (start < 0 || stop > data.len))
        PyErr_SetString(PyExc_ValueError, "start and stop must lie inside the data");
    else if (variant && start < stop) {
        Py_BEGIN_ALLOW_THREADS
        count = variant->newlines(data.buf, start, stop);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(count);
}

static int run(Reader *r, const Variant *variant)
{
    // A thread may run with denormals flushed or another rounding (torch can set both), which changes results.
    fenv_t environment;
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    int ended;
    do {
        // A blank line is no row, and no cell either where there is one column: not for the variants.
        Py_ssize_t pause = r->columns > 1 && r->column < r->columns ? variant->run(r) : r->stop;
        ended = csv_parse(r, pause);
    } while (ended == RUNNING);
    fesetenv(&environment);
    return ended;
}

static PyObject *parse_rows(PyObject *self, PyObject *args)
{
    (void)self;
    Reader r = {0};
    Py_buffer data, out, backlog;
    PyObject *out_object, *backlog_object;
    const char *name = NULL;
    if (!PyArg_ParseTuple(args, "y*nnOnnnO|z", &data, &r.at, &r.stop, &out_object, &r.row, &r.column, &r.line,
                          &backlog_object, &name))
        return NULL;
    PyObject *answer = NULL;
    const int flags = PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS | PyBUF_FORMAT;
    if (PyObject_GetBuffer(out_object, &out, flags) < 0)
        goto no_out;
    if (PyObject_GetBuffer(backlog_object, &backlog, flags) < 0)
        goto no_backlog;
    const Variant *variant = choose(name);
    if (!variant)
        goto done;
    if (out.ndim != 2 || out.itemsize != 4 || strcmp(out.format, "f") != 0 || out.shape[1] < 1) {
        PyErr_SetString(PyExc_TypeError, "out must be a C-contiguous float32 array of two dimensions");
        goto done;
    }
    if (backlog.ndim != 2 || backlog.itemsize != 8 || backlog.shape[1] != 5 || backlog.shape[0] < 1) {
        PyErr_SetString(PyExc_TypeError, "backlog must be a C-contiguous int64 array of five columns");
        goto done;
    }
    r.data = data.buf;
    r.out = out.buf;
    r.rows = out.shape[0];
    r.columns = out.shape[1];
    r.backlog = backlog.buf;
    r.room = backlog.shape[0];
    if (r.at < 0 || r.stop > data.len || r.row < 0 || r.column < 0 || r.column > r.columns ||
        (r.column > 0 && r.row >= r.rows)) {
        PyErr_SetString(PyExc_ValueError, "the position must lie inside the data, the row and column inside out");
        goto done;
    }
    int ended;
    Py_BEGIN_ALLOW_THREADS
    ended = run(&r, variant);
    Py_END_ALLOW_THREADS
    answer = Py_BuildValue("(innnnn)", ended, r.at, r.row, r.column, r.line, r.used);
done:
    PyBuffer_Release(&backlog);
no_backlog:
    PyBuffer_Release(&out);
no_out:
    PyBuffer_Release(&data);
    return answer;
}

static int fill(PyObject *module)
{
    for (int k = -REACH; k <= REACH; k++) {
        PyObject *text = PyUnicode_FromFormat("1e%d", k);
        PyObject *power = text ? PyFloat_FromString(text) : NULL;
        Py_XDECREF(text);
        if (!power)
            return -1;
        csv_powers[k + REACH] = PyFloat_AsDouble(power);
        Py_DECREF(power);
    }
    PyObject *names = PyList_New(0);
    for (size_t k = 0; names && k < VARIANTS; k++) {
        PyObject *name = usable(&variants[k]) ? PyUnicode_FromString(variants[k].name) : NULL;
        if (name)
            PyList_Append(names, name);
        Py_XDECREF(name);
    }
    PyObject *tuple = names ? PyList_AsTuple(names) : NULL;
    Py_XDECREF(names);
    int failed = tuple == NULL || PyModule_AddObjectRef(module, "VARIANTS", tuple) < 0 || PyErr_Occurred();
    Py_XDECREF(tuple);
    return failed || PyModule_AddIntConstant(module, "FINISHED", FINISHED) < 0 ||
           PyModule_AddIntConstant(module, "BACKLOG_FULL", BACKLOG_FULL) < 0 ||
           PyModule_AddIntConstant(module, "TOO_FEW", TOO_FEW) < 0 ||
           PyModule_AddIntConstant(module, "TOO_MANY", TOO_MANY) < 0 ||
           PyModule_AddIntConstant(module, "MORE_ROWS", MORE_ROWS) < 0 ? -1 : 0;
}

static PyMethodDef methods[] = {
    {"count_newlines", count_newlines, METH_VARARGS, "count_newlines(data, start, stop, variant=None) -> int"},
    {"parse_rows", parse_rows, METH_VARARGS,
     "parse_rows(data, start, stop, out, row, column, line, backlog, variant=None)\n"
     "-> (how it ended, position, row, column, line, backlog used)"},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_csv_native", .m_methods = methods, .m_slots = slots};

PyMODINIT_FUNC PyInit__csv_native(void) { return PyModuleDef_Init(&definition); }

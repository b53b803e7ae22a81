/* The program of the one-file miniqueue: CPython, linked statically, which runs what is appended to this file.
 *
 * The appended archive is a zip. Python imports modules from it as from any zip on its path; this path is /proc/self/exe,
 * which names the running file even after another one has taken its place on the disk. startup.py in the archive then
 * makes extension modules importable, for which it needs the one function that Python lacks: to load a shared library.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <sysexits.h>
#include <unistd.h>

#define ARCHIVE "/proc/self/exe"

static PyObject *load(PyObject *Py_UNUSED(module), PyObject *argument)
{
    const char *path = PyUnicode_AsUTF8(argument);
    if (path == NULL)
        return NULL;
    if (dlopen(path, RTLD_NOW | RTLD_LOCAL) == NULL) {
        PyErr_SetString(PyExc_ImportError, dlerror());
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"load", load, METH_O, "Load the shared library at a path, for those that are linked against its soname."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_libraries", .m_size = -1, .m_methods = functions
};

static PyObject *create_module(void)
{
    return PyModule_Create(&definition);
}

static void fail_on(PyStatus status)
{
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
}

/* The environment does not change what runs: no PYTHON* variable is read, and text is UTF-8 in every locale. */
static void initialize(int argc, char **argv)
{
    PyPreConfig preconfig;
    PyPreConfig_InitIsolatedConfig(&preconfig);
    preconfig.utf8_mode = 1;
    fail_on(Py_PreInitialize(&preconfig));

    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    config.parse_argv = 0;
    config.site_import = 0;
    config.write_bytecode = 0;
    config.install_signal_handlers = 1;
    config.configure_c_stdio = 1;
    config.module_search_paths_set = 1;
    fail_on(PyWideStringList_Append(&config.module_search_paths, L"" ARCHIVE));
    wchar_t **paths[] = {
        &config.executable, &config.base_executable, &config.home,        &config.prefix,
        &config.base_prefix, &config.exec_prefix,    &config.base_exec_prefix,
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        fail_on(PyConfig_SetString(&config, paths[i], L"" ARCHIVE));
    fail_on(PyConfig_SetString(&config, &config.run_command, L"import startup; startup.main()"));
    fail_on(PyConfig_SetBytesArgv(&config, argc, argv));
    fail_on(Py_InitializeFromConfig(&config));
    PyConfig_Clear(&config);
}

int main(int argc, char **argv)
{
    if (access(ARCHIVE, R_OK) != 0) {
        fprintf(stderr, "miniqueue: %s: %s; mount /proc, and make the program readable\n", ARCHIVE, strerror(errno));
        return EX_OSERR;
    }
    if (PyImport_AppendInittab("_libraries", create_module) < 0)
        return EX_SOFTWARE;
    initialize(argc, argv);
    return Py_RunMain();
}
